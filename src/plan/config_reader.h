// config_reader.h: reads numbers out of a configuration and remembers what it had to assume.
//
// Every number is checked against generous limits, so that no product of a few of them overflows. A
// missing, mistyped or impossible one is an error sentence that names the key. A default that is
// applied is noted, for the reader of the plan. Refers to the Json, which must outlive it. Use from
// one thread.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/json.h"

namespace quire::plan {

/// Spellings of one key, the usual one first.
using Keys = std::initializer_list<std::string_view>;

// Far above any model, low enough that rows * cols * experts stays below 2^63.
inline constexpr int64_t kMaxLayers = 4096;
inline constexpr int64_t kMaxWidth = 1 << 22;
inline constexpr int64_t kMaxHeads = 1 << 14;
inline constexpr int64_t kMaxVocab = 1 << 24;
inline constexpr int64_t kMaxExperts = 1 << 14;
inline constexpr int64_t kMaxTokens = 1 << 30;

class ConfigReader {
 public:
  /// `where` names the document in sentences: "config.json". `family` is its model_type.
  ConfigReader(const formats::Json& json, std::string where, std::string family,
               std::vector<std::string>& notes)
      : json_(json), where_(std::move(where)), family_(std::move(family)), notes_(notes) {}

  const std::string& family() const { return family_; }
  /// The member of the first key that is there and not null.
  const formats::Json* find(Keys keys) const;
  bool has(Keys keys) const { return find(keys) != nullptr; }
  /// Whether the key is there, be it null.
  bool mentions(std::string_view key) const { return json_.find(key) != nullptr; }

  /// A whole number from 1 to `most`.
  Result<int64_t> require(Keys keys, int64_t most) const;
  /// The same; absent: `fallback`, without a word, since absence says it.
  Result<int64_t> get(Keys keys, int64_t most, int64_t fallback) const;
  /// The same; absent: `fallback`, and a note that names it.
  Result<int64_t> get_noted(Keys keys, int64_t most, int64_t fallback);
  /// A whole number from 0 to `most`.
  Result<int64_t> get_from_zero(Keys keys, int64_t most, int64_t fallback) const;
  Result<bool> flag(Keys keys, bool fallback) const;
  Result<bool> flag_noted(Keys keys, bool fallback);
  Result<double> number(Keys keys, double fallback) const;
  Result<std::string> text(Keys keys, std::string_view fallback) const;
  /// One number a layer, or one for all; each from `least` to `most`.
  Result<std::vector<int64_t>> per_layer(Keys keys, int64_t layers, int64_t least,
                                         int64_t most) const;
  /// A list of whole numbers from 0 to `most`; empty if absent.
  Result<std::vector<int64_t>> indices(Keys keys, int64_t most) const;
  /// One word a layer; empty if absent.
  Result<std::vector<std::string>> words(Keys keys, int64_t layers) const;
  /// An object inside; empty if absent.
  Result<std::optional<ConfigReader>> inner(std::string_view key) const;

  void note(std::string sentence) { notes_.push_back(std::move(sentence)); }
  /// "config.json: " + sentence.
  Error bad(std::string_view sentence) const;
  /// kUnsupported, likewise.
  Error unsupported(std::string_view sentence) const;

 private:
  Result<int64_t> whole(const formats::Json& value, std::string_view key, int64_t least,
                        int64_t most) const;
  std::string_view present(Keys keys) const;

  const formats::Json& json_;
  std::string where_;
  std::string family_;
  std::vector<std::string>& notes_;
};

}  // namespace quire::plan
