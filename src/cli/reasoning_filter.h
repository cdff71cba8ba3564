// reasoning_filter.h: tells a model's reasoning from its answer while both stream in.
//
// Text arrives in any pieces; what may be the beginning of a tag is held until it is decided. The
// tags themselves are neither. Use from one thread.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quire::cli {

class ReasoningFilter {
 public:
  struct Piece {
    enum class Kind : uint8_t { kAnswer, kReasoning, kTag };
    Kind kind;
    std::string text;
    friend bool operator==(const Piece&, const Piece&) = default;
  };

  /// What opens and closes reasoning ("<think>", "</think>"); nothing: all is answer. `prompt_tail`
  /// is the text the answer continues: a template may have opened the block already.
  ReasoningFilter(std::optional<std::pair<std::string, std::string>> tags,
                  std::string_view prompt_tail);

  std::vector<Piece> push(std::string_view text);
  /// What was held back at the end.
  std::vector<Piece> finish();

 private:
  Piece::Kind kind() const { return reasoning_ ? Piece::Kind::kReasoning : Piece::Kind::kAnswer; }
  const std::string& awaited() const { return reasoning_ ? tags_->second : tags_->first; }

  std::optional<std::pair<std::string, std::string>> tags_;
  bool reasoning_ = false;
  std::string held_;
};

}  // namespace quire::cli
