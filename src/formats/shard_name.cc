#include "formats/shard_name.h"

#include <fmt/format.h>

#include <charconv>

namespace quire::formats {
namespace {

constexpr std::string_view kOf = "-of-";
constexpr size_t kDigits = 5;
constexpr size_t kPatternLength = 1 + kDigits + kOf.size() + kDigits;

std::optional<uint32_t> parse_five_digits(std::string_view text) {
  uint32_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return value;
}

}  // namespace

std::string ShardName::part(uint32_t other) const {
  return fmt::format("{}-{:05}-of-{:05}{}", prefix, other, count, suffix);
}

Result<void> check_no_part_missing(FileSystem& files, const ShardName& name) {
  std::string first_missing;
  uint32_t num_missing = 0;
  for (uint32_t number = 1; number <= name.count; ++number) {
    const std::string path = name.part(number);
    if (files.is_file(path)) continue;
    if (num_missing++ == 0) first_missing = path;
  }
  if (num_missing == 0) return {};
  const std::string what =
      num_missing == 1 ? fmt::format("{} is missing, one of the {} parts of the model",
                                     first_missing, name.count)
                       : fmt::format("{} of the {} parts of the model are missing, {} first",
                                     num_missing, name.count, first_missing);
  return Error{ErrorCode::kNotFound, what};
}

std::optional<ShardName> parse_shard_name(std::string_view name, std::string_view suffix) {
  if (!name.ends_with(suffix)) return std::nullopt;
  name.remove_suffix(suffix.size());
  if (name.size() < kPatternLength) return std::nullopt;
  const std::string_view pattern = name.substr(name.size() - kPatternLength);
  if (pattern[0] != '-' || pattern.substr(1 + kDigits, kOf.size()) != kOf) return std::nullopt;
  const auto number = parse_five_digits(pattern.substr(1, kDigits));
  const auto count = parse_five_digits(pattern.substr(kPatternLength - kDigits));
  if (!number || !count || *number == 0 || *number > *count) return std::nullopt;
  name.remove_suffix(kPatternLength);
  return ShardName{std::string(name), std::string(suffix), *number, *count};
}

}  // namespace quire::formats
