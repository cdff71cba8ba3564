#include "cli/reasoning_filter.h"

#include <algorithm>

namespace quire::cli {
namespace {

/// Length of the longest end of `text` that begins `tag`.
size_t begun(std::string_view text, std::string_view tag) {
  for (size_t length = std::min(text.size(), tag.size() - 1); length > 0; --length) {
    if (text.substr(text.size() - length) == tag.substr(0, length)) return length;
  }
  return 0;
}

std::string_view without_blanks(std::string_view text) {
  const size_t last = text.find_last_not_of(" \n\r\t");
  return last == std::string_view::npos ? std::string_view() : text.substr(0, last + 1);
}

}  // namespace

ReasoningFilter::ReasoningFilter(std::optional<std::pair<std::string, std::string>> tags,
                                 std::string_view prompt_tail)
    : tags_(std::move(tags)) {
  if (tags_ && (tags_->first.empty() || tags_->second.empty())) tags_.reset();
  reasoning_ = tags_ && without_blanks(prompt_tail).ends_with(tags_->first);
}

std::vector<ReasoningFilter::Piece> ReasoningFilter::push(std::string_view text) {
  std::vector<Piece> pieces;
  const auto add = [&pieces](Piece::Kind kind, std::string_view part) {
    if (!part.empty()) pieces.push_back({kind, std::string(part)});
  };
  held_ += text;
  if (!tags_) {
    add(kind(), std::exchange(held_, ""));
    return pieces;
  }
  for (size_t at = held_.find(awaited()); at != std::string::npos; at = held_.find(awaited())) {
    const std::string tag = awaited();
    add(kind(), std::string_view(held_).substr(0, at));
    add(Piece::Kind::kTag, tag);
    held_.erase(0, at + tag.size());
    reasoning_ = !reasoning_;
  }
  const size_t certain = held_.size() - begun(held_, awaited());
  add(kind(), std::string_view(held_).substr(0, certain));
  held_.erase(0, certain);
  return pieces;
}

std::vector<ReasoningFilter::Piece> ReasoningFilter::finish() {
  std::vector<Piece> pieces;
  if (!held_.empty()) pieces.push_back({kind(), std::exchange(held_, "")});
  return pieces;
}

}  // namespace quire::cli
