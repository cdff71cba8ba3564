#include "kv/geometry.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/byte_size.h"
#include "base/check.h"
#include "base/checked_math.h"
#include "base/integer_math.h"

namespace quire::kv {
namespace {

// With this, bytes of kMaxTokens tokens stay below 2^60.
constexpr int64_t kMaxBytesPerToken = int64_t{256} << 20;

/// Bytes of one layer's row pair, or nothing when a number is not positive or the product is
/// absurd.
std::optional<int64_t> row_bytes(const LayerKv& layer, KvCodecs codecs) {
  if (layer.num_kv_heads <= 0 || layer.head_dim <= 0 || layer.window_tokens < 0 ||
      layer.sink_tokens < 0 || (layer.sink_tokens > 0 && layer.window_tokens == 0)) {
    return std::nullopt;
  }
  if (!is_lossless(codecs) && layer.head_dim > kernels::kMaxSealedHeadDim) return std::nullopt;
  const auto elements = checked_mul<int64_t>(layer.num_kv_heads, layer.head_dim);
  const auto bytes =
      checked_mul<int64_t>(*elements, element_bytes(codecs.k) + element_bytes(codecs.v));
  if (!bytes || *bytes > kMaxBytesPerToken) return std::nullopt;
  return bytes;
}

Error bad_layer(size_t index, const LayerKv& layer) {
  return {ErrorCode::kUnsupported,
          fmt::format("layer {} cannot be cached with {} kv heads of {} dimensions and a window of "
                      "{} tokens: the model's configuration is wrong",
                      index, layer.num_kv_heads, layer.head_dim, layer.window_tokens)};
}

bool belongs_to(const LayerKv& layer, const LayerGroup& group) {
  return layer.num_kv_heads == group.num_kv_heads && layer.head_dim == group.head_dim &&
         layer.window_tokens == group.window_tokens && layer.sink_tokens == group.sink_tokens;
}

void check_tokens(int64_t tokens) {
  QUIRE_CHECK_LE(0, tokens);
  QUIRE_CHECK_LE(tokens, kMaxTokens);
}

/// "30 layers x 3 kv heads x 64 dims x (2 K + 2 V) bytes", and "x 512 tokens" for a window.
std::string formula_term(const LayerGroup& group) {
  const kernels::KvGroupShape shape = group.shape();
  const std::string row =
      group.is_lossless()
          ? fmt::format("{} layers x {} kv heads x {} dims x ({} K + {} V) bytes",
                        group.num_layers(), group.num_kv_heads, group.head_dim,
                        element_bytes(group.codecs.k), element_bytes(group.codecs.v))
          : fmt::format("{} layers x {} kv heads x ({} K + {} V) bytes a sealed page / {} tokens",
                        group.num_layers(), group.num_kv_heads,
                        format_count(shape.sealed_key_plane_bytes()),
                        format_count(shape.sealed_value_plane_bytes()), kPageTokens);
  if (!group.is_window()) return row;
  if (group.sink_tokens == 0) {
    return row + fmt::format(" x {} window tokens", format_count(group.window_tokens));
  }
  return row + fmt::format(" x ({} window + {} sink) tokens", format_count(group.window_tokens),
                           format_count(group.sink_tokens));
}

/// The terms of all global or all window groups, joined and summed; empty without such a group.
std::string formula_sum(const std::vector<LayerGroup>& groups, bool windows, int64_t sum,
                        std::string_view unit) {
  std::string terms;
  for (const LayerGroup& group : groups) {
    if (group.is_window() != windows) continue;
    terms += (terms.empty() ? "" : " + ") + formula_term(group);
  }
  if (terms.empty()) return terms;
  return fmt::format("{} = {} {}", terms, format_count(sum), unit);
}

}  // namespace

int64_t LayerGroup::row_bytes() const {
  return int64_t{num_layers()} * num_kv_heads * head_dim *
         (element_bytes(codecs.k) + element_bytes(codecs.v));
}

int64_t LayerGroup::bytes_per_token() const {
  return is_lossless() ? row_bytes() : divide_up(sealed_payload_bytes(), kPageTokens);
}

int64_t LayerGroup::page_bytes() const {
  return round_up(row_bytes() * kPageTokens, kPageAlignment);
}

int64_t LayerGroup::sealed_payload_bytes() const {
  return is_lossless() ? 0 : shape().sealed_page_bytes();
}

int64_t LayerGroup::sealed_page_bytes() const {
  return round_up(sealed_payload_bytes(), kPageAlignment);
}

kernels::KvGroupShape LayerGroup::shape() const {
  return {.num_layers = num_layers(),
          .num_kv_heads = num_kv_heads,
          .head_dim = head_dim,
          .key = kernel_element(codecs.k),
          .value = kernel_element(codecs.v),
          .key_code = kernel_code(codecs.k),
          .value_code = kernel_code(codecs.v)};
}

int64_t LayerGroup::used_tokens(int64_t tokens) const {
  const int64_t first = first_kept(tokens);
  return tokens - first + std::min<int64_t>(sink_tokens, first);
}

int64_t LayerGroup::used_bytes(int64_t tokens) const {
  if (is_lossless()) return used_tokens(tokens) * row_bytes();
  const int64_t page0_rows = keeps_page_0(tokens) ? std::min(tokens, kPageTokens) : 0;
  const int64_t last_rows = tokens > kPageTokens ? tokens % kPageTokens : 0;
  return sealed_pages(tokens) * sealed_payload_bytes() + (page0_rows + last_rows) * row_bytes();
}

bool LayerGroup::keeps_page_0(int64_t tokens) const {
  return tokens > 0 && (sink_tokens > 0 || first_kept(tokens) < kPageTokens);
}

int64_t LayerGroup::first_kept(int64_t tokens) const {
  return is_window() ? std::max<int64_t>(0, tokens - window_tokens) : 0;
}

int64_t LayerGroup::first_needed(int64_t tokens) const {
  return is_window() ? std::max<int64_t>(0, tokens - window_tokens + 1) : 0;
}

int64_t LayerGroup::held_pages(int64_t tokens) const {
  const int64_t first_dropped = divide_up(sink_tokens, kPageTokens);
  const int64_t dropped = std::max<int64_t>(0, first_kept(tokens) / kPageTokens - first_dropped);
  return divide_up(tokens, kPageTokens) - dropped;
}

int64_t LayerGroup::open_pages(int64_t tokens) const {
  if (is_lossless()) return held_pages(tokens);
  return (keeps_page_0(tokens) ? 1 : 0) + (tokens > kPageTokens ? 1 : 0);
}

int64_t LayerGroup::sealed_pages(int64_t tokens) const {
  if (is_lossless()) return 0;
  const int64_t filling = tokens > kPageTokens && tokens % kPageTokens > 0 ? 1 : 0;
  return held_pages(tokens) - (keeps_page_0(tokens) ? 1 : 0) - filling;
}

int64_t LayerGroup::peak_pages(int64_t max_tokens, int64_t chunk_tokens) const {
  const int64_t all = divide_up(max_tokens, kPageTokens);
  if (!is_window()) return all;
  // Before a chunk is committed, the window before it and the whole chunk are held: the worst run
  // of that many tokens starts in the last slot of a page.
  const int64_t run = window_tokens + std::max<int64_t>(1, chunk_tokens);
  return std::min(all, (run - 2) / kPageTokens + 2 + divide_up(sink_tokens, kPageTokens));
}

int64_t LayerGroup::peak_open_pages(int64_t max_tokens, int64_t chunk_tokens) const {
  const int64_t most = peak_pages(max_tokens, chunk_tokens);
  if (is_lossless()) return most;
  // Page 0; the full page before a chunk that starts with a page, or the one that it starts in; and
  // those that it fills.
  const int64_t chunk = std::max<int64_t>(1, chunk_tokens);
  return std::min(most, 2 + divide_up(chunk, kPageTokens));
}

int64_t LayerGroup::peak_sealed_pages(int64_t max_tokens, int64_t chunk_tokens) const {
  if (is_lossless()) return 0;
  return std::min(peak_pages(max_tokens, chunk_tokens),
                  std::max<int64_t>(0, max_tokens / kPageTokens - 1));
}

Result<KvGeometry> KvGeometry::create(std::span<const LayerKv> layers, KvCodecs codecs) {
  if (layers.empty())
    return Error{ErrorCode::kUnsupported, "a model without layers caches nothing"};
  KvGeometry geometry;
  geometry.codecs_ = codecs;
  int64_t total_bytes = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto bytes = row_bytes(layers[i], codecs);
    if (!bytes || total_bytes + *bytes > kMaxBytesPerToken) return bad_layer(i, layers[i]);
    total_bytes += *bytes;

    auto& groups = geometry.groups_;
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const LayerGroup& g) { return belongs_to(layers[i], g); });
    if (group == groups.end()) {
      groups.push_back({.layers = {},
                        .num_kv_heads = layers[i].num_kv_heads,
                        .head_dim = layers[i].head_dim,
                        .window_tokens = layers[i].window_tokens,
                        .sink_tokens = layers[i].sink_tokens,
                        .codecs = codecs});
      group = std::prev(groups.end());
    }
    geometry.places_.push_back(
        {.group = static_cast<int32_t>(group - groups.begin()), .index = group->num_layers()});
    group->layers.push_back(static_cast<int32_t>(i));
  }
  return geometry;
}

LayerPlace KvGeometry::place(int32_t layer) const {
  QUIRE_CHECK_LE(0, layer);
  QUIRE_CHECK_LT(layer, num_layers());
  return places_[static_cast<size_t>(layer)];
}

int64_t KvGeometry::bytes_per_token() const {
  int64_t bytes = 0;
  for (const LayerGroup& group : groups_) {
    if (!group.is_window()) bytes += group.bytes_per_token();
  }
  return bytes;
}

int64_t KvGeometry::fixed_bytes() const {
  int64_t bytes = 0;
  for (const LayerGroup& group : groups_) {
    if (!group.is_window()) continue;
    bytes += group.bytes_per_token() * (int64_t{group.window_tokens} + group.sink_tokens);
  }
  return bytes;
}

int64_t KvGeometry::used_bytes(int64_t tokens) const {
  check_tokens(tokens);
  int64_t bytes = 0;
  for (const LayerGroup& group : groups_) bytes += group.used_bytes(tokens);
  return bytes;
}

int64_t KvGeometry::held_bytes(int64_t tokens) const {
  check_tokens(tokens);
  int64_t bytes = 0;
  for (const LayerGroup& group : groups_) {
    bytes += group.page_bytes() * group.open_pages(tokens) +
             group.sealed_page_bytes() * group.sealed_pages(tokens);
  }
  return bytes;
}

int64_t KvGeometry::peak_bytes(int64_t max_tokens, int64_t chunk_tokens) const {
  check_tokens(max_tokens);
  check_tokens(chunk_tokens);
  int64_t bytes = 0;
  for (const LayerGroup& group : groups_) {
    bytes += group.page_bytes() * group.peak_open_pages(max_tokens, chunk_tokens) +
             group.sealed_page_bytes() * group.peak_sealed_pages(max_tokens, chunk_tokens);
  }
  return bytes;
}

std::string KvGeometry::formula() const {
  const std::string grows = formula_sum(groups_, false, bytes_per_token(), "bytes a token");
  const std::string fixed = formula_sum(groups_, true, fixed_bytes(), "bytes a sequence");
  if (fixed.empty()) return grows;
  return grows.empty() ? fixed : grows + "; " + fixed;
}

}  // namespace quire::kv
