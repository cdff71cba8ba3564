// geometry.h: which layers cache what, and how many bytes that is: the one formula of planner and
// engine.
//
// Layers that see the same positions through rows of the same shape form a *layer group*; each
// group has its own pages, so a hybrid model frees window pages while keeping global ones. A query
// at position i of a group with window W and S sinks sees key j iff 0 <= i - j < W or j < S. "Used"
// counts rows, and whole sealed pages; "held" counts whole pages. With a lossy codec a page is open
// (f16) while it fills, and for ever at position 0; it is sealed when it is full, and loses its
// open form when the sequence grows past it:
//
//   tokens      64        128       192   200
//   |--- open ---|- sealed -|- sealed -|-open-|
//
// Immutable; all functions are pure and may be called from any thread.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "kernels/paged_kv_view.h"
#include "kv/codec.h"

namespace quire::kv {

inline constexpr int64_t kPageTokens = kernels::kPageSlots;
/// Pages are whole pages of the operating system, so that a free one can be given back to it. Rows
/// of real models fill them exactly.
inline constexpr int64_t kPageAlignment = 4096;
/// Positions are 32-bit; nothing in the cache is longer.
inline constexpr int64_t kMaxTokens = INT32_MAX - kPageTokens;

/// What one layer of a model caches.
struct LayerKv {
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  int32_t window_tokens = 0;  // 0: sees everything
  int32_t sink_tokens = 0;    // with a window: the first tokens, which stay visible
};

struct LayerGroup {
  std::vector<int32_t> layers;  // indices in the model, ascending
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  int32_t window_tokens = 0;  // 0: global
  int32_t sink_tokens = 0;    // 0 for a global group
  KvCodecs codecs;

  [[nodiscard]] bool is_window() const { return window_tokens > 0; }
  [[nodiscard]] bool is_lossless() const { return kv::is_lossless(codecs); }
  [[nodiscard]] int32_t num_layers() const { return static_cast<int32_t>(layers.size()); }

  /// K and V rows of one token in all layers of the group, in an open page.
  [[nodiscard]] int64_t row_bytes() const;
  /// What a further token costs in the long run: row_bytes(), or with a lossy codec its share of a
  /// sealed page, rounded up.
  [[nodiscard]] int64_t bytes_per_token() const;
  /// An open page: kPageTokens rows, rounded up to kPageAlignment.
  [[nodiscard]] int64_t page_bytes() const;
  /// Codes, scales and minima of one page; 0 with a lossless codec.
  [[nodiscard]] int64_t sealed_payload_bytes() const;
  /// The same rounded up to kPageAlignment.
  [[nodiscard]] int64_t sealed_page_bytes() const;
  /// What the kernels need to find a row in a page.
  [[nodiscard]] kernels::KvGroupShape shape() const;

  /// Tokens that a sequence of `tokens` keeps: all of them, or the last window_tokens and the
  /// sinks.
  [[nodiscard]] int64_t used_tokens(int64_t tokens) const;
  /// What those cost: their rows; with a lossy codec whole sealed pages, and the rows of page 0 and
  /// of the page being filled.
  [[nodiscard]] int64_t used_bytes(int64_t tokens) const;
  /// First position behind the sinks that such a sequence keeps: max(0, tokens - window_tokens), 0
  /// for a global group.
  [[nodiscard]] int64_t first_kept(int64_t tokens) const;
  /// First position that the next query (at `tokens`) sees. The row before it is kept as well, so
  /// that the last token can always be run again.
  [[nodiscard]] int64_t first_needed(int64_t tokens) const;
  /// Pages under those tokens, in either form; page i holds positions [64 i, 64 i + 64).
  [[nodiscard]] int64_t held_pages(int64_t tokens) const;
  /// Of them, those with an open form: all of them with a lossless codec, else page 0 and the last.
  [[nodiscard]] int64_t open_pages(int64_t tokens) const;
  /// Of them, those with a sealed form: with a lossy codec every full one but page 0.
  [[nodiscard]] int64_t sealed_pages(int64_t tokens) const;
  /// The most pages at any moment while a sequence grows to `max_tokens`, at most `chunk_tokens` at
  /// once: min(ceil(max / 64), floor((window + chunk - 2) / 64) + 2 + ceil(sinks / 64)) for a
  /// window group.
  [[nodiscard]] int64_t peak_pages(int64_t max_tokens, int64_t chunk_tokens) const;
  /// The most open pages: peak_pages, or with a lossy codec page 0, the one before the chunk and
  /// those under it.
  [[nodiscard]] int64_t peak_open_pages(int64_t max_tokens, int64_t chunk_tokens) const;
  /// The most sealed pages.
  [[nodiscard]] int64_t peak_sealed_pages(int64_t max_tokens, int64_t chunk_tokens) const;

 private:
  [[nodiscard]] bool keeps_page_0(int64_t tokens) const;
};

/// Where a model's layer lives.
struct LayerPlace {
  int32_t group = 0;
  int32_t index = 0;  // among the group's layers
};

class KvGeometry {
 public:
  /// Groups equal layers in order of first appearance. kUnsupported names the layer whose numbers
  /// are not positive, whose rows are absurdly large (over 256 MiB a token in all) or whose heads
  /// are too wide for a lossy codec; whatever is accepted cannot overflow below.
  [[nodiscard]] static Result<KvGeometry> create(std::span<const LayerKv> layers, KvCodecs codecs);

  [[nodiscard]] const std::vector<LayerGroup>& groups() const { return groups_; }
  [[nodiscard]] int32_t num_layers() const { return static_cast<int32_t>(places_.size()); }
  /// Requires 0 <= layer < num_layers().
  [[nodiscard]] LayerPlace place(int32_t layer) const;
  [[nodiscard]] KvCodecs codecs() const { return codecs_; }

  /// Growth per token: the global groups.
  [[nodiscard]] int64_t bytes_per_token() const;
  /// What the window groups of one sequence use once their windows are full.
  [[nodiscard]] int64_t fixed_bytes() const;
  /// Rows of one sequence of `tokens`. Requires 0 <= tokens <= kMaxTokens, as all below.
  [[nodiscard]] int64_t used_bytes(int64_t tokens) const;
  /// Pages of one unshared sequence of `tokens`: used bytes rounded up by the page.
  [[nodiscard]] int64_t held_bytes(int64_t tokens) const;
  /// The most that it holds at any moment on the way there, when prefilled in chunks.
  [[nodiscard]] int64_t peak_bytes(int64_t max_tokens, int64_t chunk_tokens) const;

  /// The formula with this model's numbers, for people:
  /// "30 layers x 3 kv heads x 64 dims x (2 K + 2 V) bytes = 23,040 bytes a token"; with a lossy
  /// codec "30 layers x 3 kv heads x (4,352 K + 4,352 V) bytes a sealed page / 64 tokens = ...".
  [[nodiscard]] std::string formula() const;

 private:
  KvGeometry() = default;

  std::vector<LayerGroup> groups_;
  std::vector<LayerPlace> places_;
  KvCodecs codecs_;
};

}  // namespace quire::kv
