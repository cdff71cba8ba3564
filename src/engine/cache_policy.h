// cache_policy.h: the ways of keeping keys and values that a user can name, and how they combine.
//
//   dynamic            pages from a growing pool
//   static             all pages of the window set aside at the start
//   sliding:W[+S]      each query sees the last W tokens and the first S; other pages are freed
//   offloaded:BYTES    a sequence larger than BYTES of memory: its cold pages wait in a private
//   file none               nothing is kept: every step recomputes everything, the reference
//
// How numbers are stored is another choice (kv/codec.h), and pages are shared by equal prefixes in
// all of them. Only `sliding` changes what a token sees, and so the answers. Pure functions.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace quire::engine {

enum class CacheKind : uint8_t { kDynamic, kStatic, kNone };

struct SlidingWindow {
  int32_t window_tokens = 0;
  int32_t sink_tokens = 0;
  friend bool operator==(const SlidingWindow&, const SlidingWindow&) = default;
};

struct CachePolicy {
  CachePolicy() = default;
  /// A kind alone is a policy.
  CachePolicy(CacheKind kind_) : kind(kind_) {}

  CacheKind kind = CacheKind::kDynamic;
  std::optional<SlidingWindow> sliding;
  std::optional<int64_t> offload_bytes;  // memory for pages

  [[nodiscard]] bool recomputes() const { return kind == CacheKind::kNone; }
  friend bool operator==(const CachePolicy&, const CachePolicy&) = default;
};

/// "dynamic", "static", "none", "sliding:1024+4", "static,sliding:256", "offloaded:209715200".
std::string name(const CachePolicy& policy);

/// What name() prints, and sizes as people write them ("offloaded:200M"). kUsage says in a sentence
/// what is wrong; for `quantized`, `paged` and `prefix` it says which option is meant.
Result<CachePolicy> parse_cache_policy(std::string_view text);

}  // namespace quire::engine
