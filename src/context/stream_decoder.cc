#include "context/stream_decoder.h"

#include "base/utf8.h"

namespace quire::context {

std::string StreamDecoder::push(TokenId id) {
  if (special_ == SpecialText::kSkip && tokenizer_->is_control(id)) return {};
  std::string_view piece = tokenizer_->piece(id);
  if (piece.empty()) return {};
  if (start_ == Start::kOfText && tokenizer_->add_space_prefix() && piece.starts_with(' ')) {
    piece.remove_prefix(1);
  }
  start_ = Start::kContinuation;
  held_ += piece;
  const size_t whole = held_.size() - utf8_incomplete_tail(held_);
  std::string text = utf8_sanitized(std::string_view(held_).substr(0, whole));
  held_.erase(0, whole);
  return text;
}

std::string StreamDecoder::finish() {
  start_ = Start::kContinuation;
  return std::exchange(held_, {});
}

}  // namespace quire::context
