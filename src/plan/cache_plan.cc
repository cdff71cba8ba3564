#include "plan/cache_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/byte_size.h"
#include "base/integer_math.h"

namespace quire::plan {
namespace {

using kv::kPageTokens;

// As in kv/geometry.cc: bytes of the longest sequence stay far below 2^63.
constexpr int64_t kMaxRowBytes = int64_t{256} << 20;

}  // namespace

CacheGroup::CacheGroup(const LayerCache& layer, int32_t sink_tokens, kv::KvCodecs codecs)
    : layer_(layer) {
  rows_.num_kv_heads = layer.num_kv_heads;
  rows_.head_dim = layer.key_dim;
  rows_.window_tokens = layer.window_tokens;
  rows_.sink_tokens = sink_tokens;
  rows_.codecs = codecs;
}

CacheGroup::Payload CacheGroup::payload(int64_t heads, int64_t key_dim, int64_t value_dim) const {
  kernels::KvGroupShape keys = rows_.shape();
  kernels::KvGroupShape values = keys;
  keys.head_dim = static_cast<int32_t>(key_dim);
  values.head_dim = static_cast<int32_t>(value_dim);
  Payload one{.open = keys.key_plane_bytes()};
  if (keys.is_lossy()) one.sealed = keys.sealed_key_plane_bytes();
  if (value_dim > 0) {
    one.open += values.value_plane_bytes();
    if (keys.is_lossy()) one.sealed += values.sealed_value_plane_bytes();
  }
  const int64_t times = num_layers() * heads;
  return {.open = one.open * times, .sealed = one.sealed * times};
}

CacheGroup::Payload CacheGroup::payload() const {
  return payload(layer_.num_kv_heads, layer_.key_dim, layer_.value_dim);
}

int64_t CacheGroup::row_bytes() const {
  return payload().open / kPageTokens;
}

int64_t CacheGroup::bytes_per_token() const {
  return rows_.is_lossless() ? row_bytes() : divide_up(payload().sealed, kPageTokens);
}

int64_t CacheGroup::page_bytes() const {
  return round_up(payload().open, kv::kPageAlignment);
}

int64_t CacheGroup::sealed_page_bytes() const {
  return round_up(payload().sealed, kv::kPageAlignment);
}

int64_t CacheGroup::fixed_bytes() const {
  if (!is_window()) return state_bytes();
  return state_bytes() + bytes_per_token() * (int64_t{rows_.window_tokens} + rows_.sink_tokens);
}

int64_t CacheGroup::used_bytes(int64_t tokens) const {
  if (!has_rows()) return state_bytes();
  if (rows_.is_lossless()) return state_bytes() + rows_.used_tokens(tokens) * row_bytes();
  const bool keeps_page_0 = rows_.open_pages(tokens) > (tokens > kPageTokens ? 1 : 0);
  const int64_t open_rows = (keeps_page_0 ? std::min(tokens, kPageTokens) : 0) +
                            (tokens > kPageTokens ? tokens % kPageTokens : 0);
  return state_bytes() + rows_.sealed_pages(tokens) * payload().sealed + open_rows * row_bytes();
}

int64_t CacheGroup::held_pages(int64_t tokens) const {
  return has_rows() ? rows_.peak_pages(tokens, 1) : 0;
}

int64_t CacheGroup::held_bytes(int64_t tokens) const {
  if (!has_rows()) return state_bytes();
  const int64_t pages = held_pages(tokens);
  if (rows_.is_lossless()) return state_bytes() + pages * page_bytes();
  // Page 0 and the last one are open; every full one but page 0 is sealed.
  const int64_t open = std::min<int64_t>(pages, 2);
  const int64_t sealed = std::max<int64_t>(std::min(pages - 1, tokens / kPageTokens - 1), 0);
  return state_bytes() + open * page_bytes() + sealed * sealed_page_bytes();
}

int64_t CacheGroup::prefill_bytes(int64_t tokens, int64_t chunk) const {
  if (!has_rows()) return 0;
  const int64_t peak = rows_.peak_open_pages(tokens, chunk) * page_bytes() +
                       rows_.peak_sealed_pages(tokens, chunk) * sealed_page_bytes();
  return std::max<int64_t>(peak + state_bytes() - held_bytes(tokens), 0);
}

CacheGroup::SharedPages CacheGroup::shared_pages(int64_t tokens, int64_t shared) const {
  const int64_t full = shared / kPageTokens;
  const int64_t first_page = rows_.first_kept(tokens) / kPageTokens;
  const int64_t sinks = std::min({divide_up(rows_.sink_tokens, kPageTokens), full, first_page});
  const int64_t pages = std::max<int64_t>(full - first_page, 0) + sinks;
  if (rows_.is_lossless()) return {.open = pages};
  // Page 0 is open for ever.
  const int64_t open = pages > 0 && (first_page == 0 || sinks > 0) ? 1 : 0;
  return {.open = open, .sealed = pages - open};
}

int64_t CacheGroup::shared_used_bytes(int64_t tokens, int64_t shared) const {
  if (!has_rows()) return 0;
  if (!rows_.is_lossless()) {
    const SharedPages pages = shared_pages(tokens, shared);
    return pages.open * payload().open + pages.sealed * payload().sealed;
  }
  const int64_t in_window = std::max<int64_t>(shared - rows_.first_kept(tokens), 0);
  const int64_t sinks = std::min<int64_t>({rows_.sink_tokens, shared, rows_.first_kept(tokens)});
  return (in_window + sinks) * row_bytes();
}

int64_t CacheGroup::shared_held_bytes(int64_t tokens, int64_t shared) const {
  if (!has_rows()) return 0;
  const SharedPages pages = shared_pages(tokens, shared);
  return pages.open * page_bytes() + pages.sealed * sealed_page_bytes();
}

int64_t CacheGroup::multi_head_bytes(int64_t tokens) const {
  if (!has_rows()) return 0;
  const Payload page = payload(layer_.mha_heads, layer_.mha_key_dim, layer_.mha_value_dim);
  return divide_up(rows_.is_lossless() ? page.open : page.sealed, kPageTokens) *
         rows_.used_tokens(tokens);
}

std::string CacheGroup::formula() const {
  if (!has_rows()) {
    return fmt::format("{} layers x {} bytes of state", num_layers(),
                       format_count(layer_.state_bytes));
  }
  const auto key = kv::element_bytes(rows_.codecs.k);
  const auto value = kv::element_bytes(rows_.codecs.v);
  std::string text = fmt::format("{} layers x ", num_layers());
  if (!rows_.is_lossless()) {
    const Payload keys = payload(1, layer_.key_dim, 0);
    const Payload both = payload(1, layer_.key_dim, layer_.value_dim);
    text += fmt::format("{} kv heads x ({} K + {} V) bytes a sealed page / {} tokens",
                        layer_.num_kv_heads, format_count(keys.sealed / num_layers()),
                        format_count((both.sealed - keys.sealed) / num_layers()), kPageTokens);
  } else if (layer_.value_dim == 0) {
    text += fmt::format("{} latent dims x {} bytes", layer_.key_dim, key);
  } else if (layer_.value_dim == layer_.key_dim) {
    text += fmt::format("{} kv heads x {} dims x ({} K + {} V) bytes", layer_.num_kv_heads,
                        layer_.key_dim, key, value);
  } else {
    text += fmt::format("{} kv heads x ({} K dims x {} + {} V dims x {}) bytes",
                        layer_.num_kv_heads, layer_.key_dim, key, layer_.value_dim, value);
  }
  if (is_window() && rows_.sink_tokens > 0) {
    text += fmt::format(" x ({} window + {} sink) tokens", format_count(rows_.window_tokens),
                        format_count(rows_.sink_tokens));
  } else if (is_window()) {
    text += fmt::format(" x {} window tokens", format_count(rows_.window_tokens));
  }
  if (layer_.state_bytes > 0) {
    text += fmt::format(" (and {} layers x {} bytes of state)", num_layers(),
                        format_count(layer_.state_bytes));
  }
  return text;
}

CachePlan::CachePlan(const ModelShape& shape, kv::KvCodecs codecs, const CacheStrategy& strategy) {
  for (LayerCache layer : shape.layers) {
    if (layer.num_kv_heads == 0 && layer.state_bytes == 0) continue;
    const bool narrows = strategy.window_tokens > 0 && layer.num_kv_heads > 0 &&
                         (layer.window_tokens == 0 || strategy.window_tokens < layer.window_tokens);
    if (narrows) layer.window_tokens = static_cast<int32_t>(strategy.window_tokens);
    const auto sinks = static_cast<int32_t>(narrows ? strategy.sink_tokens : 0);
    auto group = std::find_if(groups_.begin(), groups_.end(),
                              [&](const CacheGroup& g) { return g.holds(layer, sinks); });
    if (group == groups_.end()) {
      groups_.emplace_back(layer, sinks, codecs);
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
    std::string& terms = group.has_rows() && !group.is_window() ? grows : fixed;
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
