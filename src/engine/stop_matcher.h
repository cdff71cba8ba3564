// stop_matcher.h: finds stop strings in text that arrives in pieces.
//
// Text that may be the beginning of a stop string is held back, so that no part of one is ever
// shown. Use one from one thread at a time.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quire::engine {

class StopMatcher {
 public:
  /// Empty stop strings are ignored.
  explicit StopMatcher(std::vector<std::string> stops);

  /// The text that is now certain to be no part of a stop string. After a match: what came before
  /// it.
  std::string push(std::string_view text);
  /// The stop string that was found: the one that ends first, the longer one of two that end
  /// together.
  const std::optional<std::string>& matched() const { return matched_; }
  /// What was held back, when no more text follows.
  std::string finish();

 private:
  std::vector<std::string> stops_;
  std::string held_;
  std::optional<std::string> matched_;
};

}  // namespace quire::engine
