#include "plan/cache_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/byte_size.h"
#include "base/checked_math.h"

namespace quire::plan {
namespace {

using kv::kPageTokens;

constexpr KvFormats kF16Pages{.k = {.name = "f16"}, .v = {.name = "f16"}};
// As in kv/geometry.cc: bytes of the longest sequence stay far below 2^63.
constexpr int64_t kMaxRowBytes = int64_t{256} << 20;

int64_t divide_up(int64_t value, int64_t divisor) {
  return (value + divisor - 1) / divisor;
}

int64_t align_page(int64_t bytes) {
  return divide_up(bytes, kv::kPageAlignment) * kv::kPageAlignment;
}

/// Bytes of an element, also where they are no whole number: "2", "0.5".
std::string element_text(const KvFormat& format) {
  return fmt::format("{}", static_cast<double>(format.bits) / 8.0);
}

}  // namespace

CacheGroup::CacheGroup(const LayerCache& layer, KvFormats formats, const CacheStrategy& strategy)
    : layer_(layer), formats_(formats) {
  window_.num_kv_heads = layer.num_kv_heads;
  window_.head_dim = layer.key_dim;
  window_.window_tokens = layer.window_tokens;
  const bool narrows = strategy.window_tokens > 0 &&
                       (layer.window_tokens == 0 || strategy.window_tokens < layer.window_tokens);
  if (!has_rows() || !narrows) return;
  window_.window_tokens = static_cast<int32_t>(strategy.window_tokens);
  sinks_ = strategy.sink_tokens;
}

int64_t CacheGroup::raw_page_bytes(const KvFormats& formats) const {
  return num_layers() * layer_.num_kv_heads *
         (key_page_bytes(formats.k, layer_.key_dim) +
          value_page_bytes(formats.v, layer_.value_dim));
}

int64_t CacheGroup::bytes_per_token() const {
  return divide_up(raw_page_bytes(formats_), kPageTokens);
}

int64_t CacheGroup::page_bytes() const {
  return align_page(raw_page_bytes(formats_));
}

int64_t CacheGroup::open_page_bytes() const {
  return formats_.lossless() ? page_bytes() : align_page(raw_page_bytes(kF16Pages));
}

int64_t CacheGroup::kept_tokens(int64_t tokens) const {
  if (!is_window()) return tokens;
  return std::min<int64_t>(tokens, window_.window_tokens + sinks_);
}

/// Pages that stay in f16 in a quantized cache: the first, if it is kept, and the one being filled.
int64_t CacheGroup::full_pages() const {
  if (formats_.lossless() || !has_rows()) return 0;
  return is_window() && sinks_ == 0 ? 1 : 2;
}

int64_t CacheGroup::fixed_bytes() const {
  int64_t bytes = state_bytes();
  if (is_window()) bytes += bytes_per_token() * (window_.window_tokens + sinks_);
  if (!formats_.lossless()) {
    bytes += full_pages() * (raw_page_bytes(kF16Pages) - raw_page_bytes(formats_));
  }
  return bytes;
}

int64_t CacheGroup::used_bytes(int64_t tokens) const {
  if (!has_rows()) return state_bytes();
  const int64_t kept = kept_tokens(tokens);
  const int64_t in_f16 = std::min(kept, full_pages() * kPageTokens);
  const int64_t f16_row = divide_up(raw_page_bytes(kF16Pages), kPageTokens);
  return state_bytes() + (kept - in_f16) * bytes_per_token() + in_f16 * f16_row;
}

int64_t CacheGroup::held_pages(int64_t tokens) const {
  if (!has_rows()) return 0;
  const int64_t all = divide_up(tokens, kPageTokens);
  return std::min(all, window_.peak_pages(tokens, 1) + divide_up(sinks_, kPageTokens));
}

int64_t CacheGroup::held_bytes(int64_t tokens) const {
  const int64_t pages = held_pages(tokens);
  const int64_t in_f16 = std::min(pages, full_pages());
  return state_bytes() + (pages - in_f16) * page_bytes() + in_f16 * open_page_bytes();
}

int64_t CacheGroup::prefill_bytes(int64_t tokens, int64_t chunk) const {
  if (!has_rows()) return 0;
  const int64_t all = divide_up(tokens, kPageTokens);
  const int64_t peak =
      std::min(all, window_.peak_pages(tokens, chunk) + divide_up(sinks_, kPageTokens));
  return std::max<int64_t>(peak - held_pages(tokens), 0) * page_bytes();
}

int64_t CacheGroup::shared_used_bytes(int64_t tokens, int64_t shared) const {
  if (!has_rows()) return 0;
  const int64_t in_window = std::max<int64_t>(shared - window_.first_kept(tokens), 0);
  return std::min(kept_tokens(shared), in_window + std::min(sinks_, shared)) * bytes_per_token();
}

int64_t CacheGroup::shared_held_bytes(int64_t tokens, int64_t shared) const {
  if (!has_rows()) return 0;
  const int64_t first_page = window_.first_kept(tokens) / kPageTokens;
  const int64_t sink_pages = std::min(divide_up(sinks_, kPageTokens), first_page);
  const int64_t pages = std::max<int64_t>(shared / kPageTokens - first_page, 0);
  return (pages + std::min(sink_pages, shared / kPageTokens)) * page_bytes();
}

int64_t CacheGroup::multi_head_bytes(int64_t tokens) const {
  if (!has_rows()) return 0;
  const int64_t page = num_layers() * layer_.mha_heads *
                       (key_page_bytes(formats_.k, layer_.mha_key_dim) +
                        value_page_bytes(formats_.v, layer_.mha_value_dim));
  return divide_up(page, kPageTokens) * kept_tokens(tokens);
}

std::string CacheGroup::formula() const {
  if (!has_rows()) {
    return fmt::format("{} layers x {} bytes of state", num_layers(),
                       format_count(layer_.state_bytes));
  }
  std::string text;
  if (layer_.value_dim == 0) {
    text = fmt::format("{} layers x {} latent dims x {} bytes", num_layers(), layer_.key_dim,
                       element_text(formats_.k));
  } else if (layer_.value_dim == layer_.key_dim) {
    text = fmt::format("{} layers x {} kv heads x {} dims x ({} K + {} V) bytes", num_layers(),
                       layer_.num_kv_heads, layer_.key_dim, element_text(formats_.k),
                       element_text(formats_.v));
  } else {
    text = fmt::format("{} layers x {} kv heads x ({} K dims x {} + {} V dims x {}) bytes",
                       num_layers(), layer_.num_kv_heads, layer_.key_dim, element_text(formats_.k),
                       layer_.value_dim, element_text(formats_.v));
  }
  if (!formats_.lossless()) {
    const int64_t codes = num_layers() * layer_.num_kv_heads *
                          (layer_.key_dim * formats_.k.bits + layer_.value_dim * formats_.v.bits) /
                          8;
    text += fmt::format(" + {} of scales", format_count(bytes_per_token() - codes));
  }
  if (is_window()) {
    text += fmt::format(" x {} window tokens", format_count(window_.window_tokens + sinks_));
  }
  if (layer_.state_bytes > 0) {
    text += fmt::format(" (and {} layers x {} bytes of state)", num_layers(),
                        format_count(layer_.state_bytes));
  }
  return text;
}

CachePlan::CachePlan(const ModelShape& shape, KvFormats formats, const CacheStrategy& strategy) {
  for (const LayerCache& layer : shape.layers) {
    if (layer.num_kv_heads == 0 && layer.state_bytes == 0) continue;
    auto group = std::find_if(groups_.begin(), groups_.end(),
                              [&](const CacheGroup& g) { return g.holds(layer); });
    if (group == groups_.end()) {
      groups_.emplace_back(layer, formats, strategy);
      group = std::prev(groups_.end());
    }
    group->add_layer();
  }
}

template <class Member>
int64_t CachePlan::sum(Member member) const {
  int64_t total = 0;
  for (const CacheGroup& group : groups_) total += member(group);
  return total;
}

int64_t CachePlan::bytes_per_token() const {
  return sum([](const CacheGroup& g) { return g.is_window() ? 0 : g.bytes_per_token(); });
}
int64_t CachePlan::fixed_bytes() const {
  return sum([](const CacheGroup& g) { return g.fixed_bytes(); });
}
int64_t CachePlan::used_bytes(int64_t tokens) const {
  return sum([=](const CacheGroup& g) { return g.used_bytes(tokens); });
}
int64_t CachePlan::held_bytes(int64_t tokens) const {
  return sum([=](const CacheGroup& g) { return g.held_bytes(tokens); });
}
int64_t CachePlan::prefill_bytes(int64_t tokens, int64_t chunk) const {
  return sum([=](const CacheGroup& g) { return g.prefill_bytes(tokens, chunk); });
}
int64_t CachePlan::shared_used_bytes(int64_t tokens, int64_t shared) const {
  return sum([=](const CacheGroup& g) { return g.shared_used_bytes(tokens, shared); });
}
int64_t CachePlan::shared_held_bytes(int64_t tokens, int64_t shared) const {
  return sum([=](const CacheGroup& g) { return g.shared_held_bytes(tokens, shared); });
}
int64_t CachePlan::multi_head_bytes(int64_t tokens) const {
  return sum([=](const CacheGroup& g) { return g.multi_head_bytes(tokens); });
}

std::string CachePlan::formula() const {
  std::string grows, fixed;
  for (const CacheGroup& group : groups_) {
    const bool growing = group.has_rows() && !group.is_window();
    std::string& terms = growing ? grows : fixed;
    terms += (terms.empty() ? "" : " + ") + group.formula();
  }
  std::string text;
  if (!grows.empty())
    text = fmt::format("{} = {} bytes a token", grows, format_count(bytes_per_token()));
  if (!fixed.empty()) {
    text += fmt::format("{}{} = {} bytes a sequence", text.empty() ? "" : "; ", fixed,
                        format_count(fixed_bytes()));
  }
  return text.empty() ? "nothing is cached" : text;
}

Result<void> check_cache_size(const ModelShape& shape) {
  int64_t rows = 0;
  int64_t states = 0;
  for (const LayerCache& layer : shape.layers) {
    const int64_t heads = std::max(layer.num_kv_heads, layer.mha_heads);
    const int64_t dims = int64_t{std::max(layer.key_dim, layer.mha_key_dim)} +
                         std::max(layer.value_dim, layer.mha_value_dim);
    rows += heads * dims * 4;
    states += layer.state_bytes;
    if (rows > kMaxRowBytes || states > kMaxRowBytes * 1024) {
      return Error{ErrorCode::kBadFile,
                   fmt::format("the configuration describes rows of over {} a token or states of "
                               "over {}: one of its numbers is wrong",
                               format_bytes(kMaxRowBytes), format_bytes(kMaxRowBytes * 1024))};
    }
  }
  return {};
}

}  // namespace quire::plan
