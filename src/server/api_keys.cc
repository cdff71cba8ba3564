#include "server/api_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <random>

#include "base/hash.h"
#include "server/sha256.h"

namespace quire::server {
namespace {

constexpr uint64_t kMostFileBytes = 1 << 20;
constexpr std::string_view kBearer = "bearer ";

std::string_view without_blanks(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

bool is_header_text(std::string_view key) {
  return std::ranges::all_of(key, [](char c) { return c > ' ' && c < 127; });
}

bool starts_with_bearer(std::string_view value) {
  if (value.size() < kBearer.size()) return false;
  return std::ranges::equal(value.substr(0, kBearer.size()), kBearer,
                            [](char a, char b) { return (a | 0x20) == (b | 0x20); });
}

/// The key that a request shows, "" if none.
std::string_view presented_key(const HttpRequest& request) {
  if (const std::string* value = request.header("authorization")) {
    if (starts_with_bearer(*value)) {
      return without_blanks(std::string_view(*value).substr(kBearer.size()));
    }
  }
  if (const std::string* value = request.header("x-api-key")) return without_blanks(*value);
  return {};
}

}  // namespace

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  // volatile, so that no compiler ends the loop early.
  volatile unsigned difference = a.size() == b.size() ? 0 : 1;
  const size_t length = std::min(a.size(), b.size());
  for (size_t i = 0; i < length; ++i) {
    difference = difference | static_cast<unsigned char>(a[i] ^ b[i]);
  }
  return difference == 0;
}

ApiKeys::ApiKeys(std::vector<std::string> keys, std::string secret) : keys_(std::move(keys)) {
  for (const std::string& key : keys_) {
    DigestBuilder digest;
    digest.add(std::string_view(secret));
    digest.add(std::string_view(key));
    const Digest id = digest.finish();
    callers_.push_back({.tenant = fmt::format("{:016x}{:016x}", id.high, id.low),
                        .owner = "key:" + sha256_hex("quire conversations\n" + key)});
  }
}

std::optional<ApiKeys::Caller> ApiKeys::caller_of(const HttpRequest& request) const {
  if (!required()) return Caller{.tenant = "", .owner = "anyone"};
  const std::string_view key = presented_key(request);
  std::optional<Caller> caller;
  // All of them, whichever it is.
  for (size_t i = 0; i < keys_.size(); ++i) {
    if (equal_in_constant_time(keys_[i], key)) caller = callers_[i];
  }
  return caller;
}

Result<std::vector<std::string>> parse_api_keys(std::string_view text, std::string_view what) {
  std::vector<std::string> keys;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = without_blanks(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.empty() || line.starts_with('#')) continue;
    if (!is_header_text(line)) {
      return Error{
          ErrorCode::kUsage,
          fmt::format("{}: key {} holds blanks or characters beyond ASCII, which no client "
                      "can send",
                      what, keys.size() + 1)};
    }
    keys.emplace_back(line);
  }
  if (keys.empty()) {
    return Error{ErrorCode::kUsage, fmt::format("{} holds no key: write one a line", what)};
  }
  return keys;
}

Result<std::vector<std::string>> read_api_keys(FileSystem& files, const std::string& path) {
  QUIRE_TRY(const std::string text, files.read(path, kMostFileBytes));
  return parse_api_keys(text, path);
}

std::string random_secret() {
  std::random_device source;  // the system's, as libstdc++ and libc++ have it
  std::string secret;
  for (int i = 0; i < 8; ++i) {
    const uint32_t word = source();
    for (int shift = 0; shift < 32; shift += 8) secret += static_cast<char>(word >> shift);
  }
  return secret;
}

}  // namespace quire::server
