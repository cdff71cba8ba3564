#include "context/tokenizer/aligned_text.h"

#include <cstddef>

namespace quire::context {

AlignedText AlignedText::part(size_t from, size_t to) const {
  AlignedText part(std::string_view(text_).substr(from, to - from), begin_ + from, tracking_);
  if (tracking_ == Tracking::kOff) return part;
  part.begin_ = origin(from);
  part.end_ = origin(to);
  if (!origins_.empty()) {
    part.origins_.assign(origins_.begin() + static_cast<std::ptrdiff_t>(from),
                         origins_.begin() + static_cast<std::ptrdiff_t>(to));
  }
  return part;
}

void AlignedText::Rewriter::keep(size_t from, size_t to) {
  text_ += target_.text().substr(from, to - from);
  if (target_.tracking_ == Tracking::kOff) return;
  for (size_t i = from; i < to; ++i) origins_.push_back(target_.origin(i));
}

void AlignedText::Rewriter::write(std::string_view text, size_t at) {
  text_ += text;
  if (target_.tracking_ == Tracking::kOn) {
    origins_.insert(origins_.end(), text.size(), target_.origin(at));
  }
}

void AlignedText::Rewriter::finish() {
  target_.text_ = std::move(text_);
  target_.origins_ = std::move(origins_);
}

}  // namespace quire::context
