// cache_plan.h: the bytes of one sequence's cache, layer group by layer group.
//
// Windows, pages and their rounding are those of kv/geometry.h; what planning adds are rows whose
// keys and values differ in size (latent attention), states of fixed size, attention sinks, pages
// in codecs, and tokens that all sequences share. "Used" counts rows; "held" counts whole pages, as
// many as a sequence holds at the worst moment of its steady growth (a window of 512 tokens holds 9
// pages). Immutable; pure functions.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kv/geometry.h"
#include "plan/model_shape.h"

namespace quire::plan {

/// What `--cache` asks for.
struct CacheStrategy {
  bool reserves_all = false;  // static: every page of the window is reserved up front
  bool recomputes = false;    // none: pages of one sequence, for the time of a step
  int64_t window_tokens = 0;  // sliding; 0: none
  int64_t sink_tokens = 0;    // kept from the start beside the window
  std::optional<int64_t> resident_bytes = std::nullopt;  // offloaded: what stays in memory
};

/// Equal layers.
class CacheGroup {
 public:
  CacheGroup(const LayerCache& layer, int32_t sink_tokens, kv::KvCodecs codecs);

  void add_layer() { rows_.layers.push_back(rows_.num_layers()); }
  bool holds(const LayerCache& layer, int32_t sink_tokens) const {
    return layer == layer_ && sink_tokens == rows_.sink_tokens;
  }

  const LayerCache& layer() const { return layer_; }
  /// What counts tokens and pages.
  const kv::LayerGroup& rows() const { return rows_; }
  int64_t num_layers() const { return rows_.num_layers(); }
  bool has_rows() const { return layer_.num_kv_heads > 0; }
  bool is_window() const { return rows_.is_window(); }

  /// A row in all layers, in the long run.
  int64_t bytes_per_token() const;
  int64_t page_bytes() const;
  int64_t sealed_page_bytes() const;
  /// States and full windows.
  int64_t fixed_bytes() const;
  int64_t state_bytes() const { return layer_.state_bytes * num_layers(); }
  int64_t used_bytes(int64_t tokens) const;
  int64_t held_bytes(int64_t tokens) const;
  int64_t held_pages(int64_t tokens) const;
  /// Pages beyond held_bytes() while `chunk` tokens are read at once: with it, what
  /// kv::KvGeometry::peak_bytes says.
  int64_t prefill_bytes(int64_t tokens, int64_t chunk) const;
  /// Of used_bytes(tokens), what stands at positions before `shared`.
  int64_t shared_used_bytes(int64_t tokens, int64_t shared) const;
  /// Of held_bytes(tokens), whole pages before `shared`.
  int64_t shared_held_bytes(int64_t tokens, int64_t shared) const;
  /// What rows with as many kv heads as heads would use.
  int64_t multi_head_bytes(int64_t tokens) const;
  /// "30 layers x 3 kv heads x 64 dims x (2 K + 2 V) bytes".
  std::string formula() const;

 private:
  struct Payload {
    int64_t open = 0;    // bytes of a page's rows
    int64_t sealed = 0;  // of its codes and scales; 0 with lossless codecs
  };
  struct SharedPages {
    int64_t open = 0;
    int64_t sealed = 0;
  };
  SharedPages shared_pages(int64_t tokens, int64_t shared) const;
  Payload payload(int64_t heads, int64_t key_dim, int64_t value_dim) const;
  Payload payload() const;
  int64_t row_bytes() const;

  LayerCache layer_;
  kv::LayerGroup rows_;
};

/// All groups of a model, in order of first appearance.
class CachePlan {
 public:
  CachePlan(const ModelShape& shape, kv::KvCodecs codecs, const CacheStrategy& strategy);

  const std::vector<CacheGroup>& groups() const { return groups_; }
  int64_t bytes_per_token() const;
  int64_t fixed_bytes() const;
  int64_t used_bytes(int64_t tokens) const;
  int64_t held_bytes(int64_t tokens) const;
  int64_t prefill_bytes(int64_t tokens, int64_t chunk) const;
  int64_t shared_used_bytes(int64_t tokens, int64_t shared) const;
  int64_t shared_held_bytes(int64_t tokens, int64_t shared) const;
  int64_t multi_head_bytes(int64_t tokens) const;
  /// Growth and fixed part with this model's numbers.
  std::string formula() const;

 private:
  template <class Member>
  int64_t sum(Member member) const;

  std::vector<CacheGroup> groups_;
};

/// Whether rows, states and formats stay so small that the sums of any plan fit: a sentence if not.
Result<void> check_cache_size(const ModelShape& shape);

}  // namespace quire::plan
