#include "engine/cache_policy.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <vector>

#include "base/byte_size.h"
#include "formats/printable.h"

namespace quire::engine {
namespace {

struct Answer {
  std::string_view kind;
  std::string_view sentence;
};
constexpr std::array kAnswers = {
    Answer{"quantized", "is chosen by --kv: q8, q6, q4, q3 or a pair such as q6/q4"},
    Answer{"paged", "is what every cache is already; choose dynamic"},
    Answer{"prefix",
           "is what every cache does already; give --prefix-file, --batch or --choices, or chat"},
};

Error usage(std::string message) {
  return {ErrorCode::kUsage, std::move(message)};
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0;;) {
    const size_t comma = text.find(',', begin);
    parts.push_back(text.substr(begin, comma - begin));
    if (comma == std::string_view::npos) return parts;
    begin = comma + 1;
  }
}

std::optional<int32_t> parse_tokens(std::string_view text) {
  int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Result<SlidingWindow> parse_sliding(std::string_view value) {
  const size_t plus = value.find('+');
  const auto window = parse_tokens(value.substr(0, plus));
  const auto sinks = plus == std::string_view::npos ? std::optional<int32_t>(0)
                                                    : parse_tokens(value.substr(plus + 1));
  if (!window || !sinks || *window < 1 || *sinks < 0) {
    return usage(
        fmt::format("sliding wants a window of at least one token and maybe sinks, such as "
                    "sliding:1024 or sliding:1024+4, not '{}'",
                    formats::printable(value)));
  }
  return SlidingWindow{*window, *sinks};
}

Result<int64_t> parse_offloaded(std::string_view value) {
  const auto bytes = parse_byte_size(value);
  if (!bytes || *bytes <= 0) {
    return usage(
        fmt::format("offloaded wants the memory that pages may take, such as "
                    "offloaded:200M, not '{}'",
                    formats::printable(value)));
  }
  return *bytes;
}

Result<void> add_part(std::string_view part, CachePolicy& policy, int& kinds) {
  const size_t colon = part.find(':');
  const std::string_view kind = part.substr(0, colon);
  const std::string_view value =
      colon == std::string_view::npos ? std::string_view() : part.substr(colon + 1);
  if (kind == "sliding") {
    if (policy.sliding) return usage("sliding is given twice");
    QUIRE_TRY(policy.sliding, parse_sliding(value));
    return {};
  }
  if (kind == "offloaded") {
    if (policy.offload_bytes) return usage("offloaded is given twice");
    QUIRE_TRY(policy.offload_bytes, parse_offloaded(value));
    return {};
  }
  for (const Answer& answer : kAnswers) {
    if (kind == answer.kind) return usage(fmt::format("{} {}", kind, answer.sentence));
  }
  const bool known = part == "dynamic" || part == "static" || part == "none";
  if (!known) {
    return usage(
        fmt::format("the cache kinds are dynamic, static, sliding:WINDOW[+SINKS], "
                    "offloaded:BYTES and none; '{}' is none of them",
                    formats::printable(part)));
  }
  if (++kinds > 1) return usage("only one of dynamic, static and none can be given");
  policy.kind = part == "static" ? CacheKind::kStatic
                : part == "none" ? CacheKind::kNone
                                 : CacheKind::kDynamic;
  return {};
}

}  // namespace

std::string name(const CachePolicy& policy) {
  std::string text;
  const auto add = [&text](const std::string& part) { text += (text.empty() ? "" : ",") + part; };
  if (policy.kind == CacheKind::kStatic) add("static");
  if (policy.kind == CacheKind::kNone) add("none");
  if (policy.sliding) {
    const SlidingWindow& s = *policy.sliding;
    add(s.sink_tokens > 0 ? fmt::format("sliding:{}+{}", s.window_tokens, s.sink_tokens)
                          : fmt::format("sliding:{}", s.window_tokens));
  }
  if (policy.offload_bytes) add(fmt::format("offloaded:{}", *policy.offload_bytes));
  return text.empty() ? "dynamic" : text;
}

Result<CachePolicy> parse_cache_policy(std::string_view text) {
  CachePolicy policy;
  int kinds = 0;
  for (const std::string_view part : split(text)) QUIRE_TRY_VOID(add_part(part, policy, kinds));
  if (policy.offload_bytes && policy.kind != CacheKind::kDynamic) {
    return usage(policy.recomputes()
                     ? "none keeps nothing that could be offloaded"
                     : "static sets all pages aside in memory; offloaded exists to avoid that");
  }
  return policy;
}

}  // namespace quire::engine
