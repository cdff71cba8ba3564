#include "plan/config_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/byte_size.h"
#include "formats/printable.h"

namespace quire::plan {
namespace {

using formats::Json;

/// What stands there, short enough for a sentence.
std::string shown(const Json& value) {
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  return formats::printable(value.dump());
}

}  // namespace

const Json* ConfigReader::find(Keys keys) const {
  for (const std::string_view key : keys) {
    const Json* value = json_.find(key);
    if (value != nullptr && !value->is_null()) return value;
  }
  return nullptr;
}

std::string_view ConfigReader::present(Keys keys) const {
  for (const std::string_view key : keys) {
    const Json* value = json_.find(key);
    if (value != nullptr && !value->is_null()) return key;
  }
  return *keys.begin();
}

Error ConfigReader::bad(std::string_view sentence) const {
  return {ErrorCode::kBadFile, fmt::format("{}: {}", where_, sentence)};
}

Error ConfigReader::unsupported(std::string_view sentence) const {
  return {ErrorCode::kUnsupported, fmt::format("{}: {}", where_, sentence)};
}

Result<int64_t> ConfigReader::whole(const Json& value, std::string_view key, int64_t least,
                                    int64_t most) const {
  std::optional<int64_t> number = value.as_int();
  if (!number && value.is_double()) {
    // Some exporters write 4096.0.
    const double real = *value.as_double();
    if (std::floor(real) == real && std::abs(real) < 0x1p53) number = static_cast<int64_t>(real);
  }
  if (!number || *number < least || *number > most) {
    return bad(fmt::format("{} should be a whole number from {} to {}, but is {}", key, least,
                           format_count(most), shown(value)));
  }
  return *number;
}

Result<int64_t> ConfigReader::require(Keys keys, int64_t most) const {
  const Json* value = find(keys);
  if (value == nullptr) {
    return bad(
        fmt::format("{} is missing, and {} implies no default for it", *keys.begin(), family_));
  }
  return whole(*value, present(keys), 1, most);
}

Result<int64_t> ConfigReader::get(Keys keys, int64_t most, int64_t fallback) const {
  const Json* value = find(keys);
  if (value == nullptr) return fallback;
  return whole(*value, present(keys), 1, most);
}

Result<int64_t> ConfigReader::get_noted(Keys keys, int64_t most, int64_t fallback) {
  if (!has(keys)) {
    note(fmt::format("{} is missing: {} implies {}", *keys.begin(), family_,
                     format_count(fallback)));
  }
  return get(keys, most, fallback);
}

Result<int64_t> ConfigReader::get_from_zero(Keys keys, int64_t most, int64_t fallback) const {
  const Json* value = find(keys);
  if (value == nullptr) return fallback;
  return whole(*value, present(keys), 0, most);
}

Result<bool> ConfigReader::flag(Keys keys, bool fallback) const {
  const Json* value = find(keys);
  if (value == nullptr) return fallback;
  if (const auto truth = value->as_bool()) return *truth;
  return bad(fmt::format("{} should be true or false, but is {}", present(keys), shown(*value)));
}

Result<bool> ConfigReader::flag_noted(Keys keys, bool fallback) {
  if (!has(keys)) {
    note(fmt::format("{} is missing: {} implies {}", *keys.begin(), family_, fallback));
  }
  return flag(keys, fallback);
}

Result<double> ConfigReader::number(Keys keys, double fallback) const {
  const Json* value = find(keys);
  if (value == nullptr) return fallback;
  const auto real = value->as_double();
  if (!real || !std::isfinite(*real)) {
    return bad(fmt::format("{} should be a number, but is {}", present(keys), shown(*value)));
  }
  return *real;
}

Result<std::string> ConfigReader::text(Keys keys, std::string_view fallback) const {
  const Json* value = find(keys);
  if (value == nullptr) return std::string(fallback);
  if (const std::string* words = value->as_string()) return *words;
  return bad(fmt::format("{} should be a text, but is {}", present(keys), shown(*value)));
}

Result<std::vector<int64_t>> ConfigReader::per_layer(Keys keys, int64_t layers, int64_t least,
                                                     int64_t most) const {
  const Json* value = find(keys);
  if (value == nullptr) {
    return bad(
        fmt::format("{} is missing, and {} implies no default for it", *keys.begin(), family_));
  }
  const std::string_view key = present(keys);
  std::vector<int64_t> numbers;
  if (!value->is_array()) {
    QUIRE_TRY(const int64_t all, whole(*value, key, least, most));
    numbers.assign(static_cast<size_t>(layers), all);
    return numbers;
  }
  if (static_cast<int64_t>(value->as_array()->size()) != layers) {
    return bad(fmt::format("{} lists {} layers, but there are {}", key, value->as_array()->size(),
                           layers));
  }
  for (const Json& element : *value->as_array()) {
    QUIRE_TRY(const int64_t number, whole(element, key, least, most));
    numbers.push_back(number);
  }
  return numbers;
}

Result<std::vector<int64_t>> ConfigReader::indices(Keys keys, int64_t most) const {
  std::vector<int64_t> numbers;
  const Json* value = find(keys);
  if (value == nullptr) return numbers;
  const std::string_view key = present(keys);
  if (!value->is_array()) return bad(fmt::format("{} should be a list", key));
  for (const Json& element : *value->as_array()) {
    QUIRE_TRY(const int64_t number, whole(element, key, 0, most));
    numbers.push_back(number);
  }
  return numbers;
}

Result<std::vector<std::string>> ConfigReader::words(Keys keys, int64_t layers) const {
  std::vector<std::string> words;
  const Json* value = find(keys);
  if (value == nullptr) return words;
  const std::string_view key = present(keys);
  if (!value->is_array() || static_cast<int64_t>(value->as_array()->size()) != layers) {
    return bad(fmt::format("{} does not name each of {} layers", key, layers));
  }
  for (const Json& element : *value->as_array()) {
    if (!element.is_string()) {
      return bad(fmt::format("{} should hold words, but has {}", key, shown(element)));
    }
    words.push_back(*element.as_string());
  }
  return words;
}

Result<std::optional<ConfigReader>> ConfigReader::inner(std::string_view key) const {
  const Json* value = find({key});
  if (value == nullptr) return std::optional<ConfigReader>();
  if (!value->is_object()) return bad(fmt::format("{} should be an object", key));
  return std::optional(ConfigReader(*value, fmt::format("{}: {}", where_, key), family_, notes_));
}

}  // namespace quire::plan
