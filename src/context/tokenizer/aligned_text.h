// aligned_text.h: a stretch of input text on its way to the model, which normalizers may rewrite.
//
// When tracking is on it knows, for each of its bytes, which byte of the original input it stands
// for, so that tokens can be placed in what the user wrote. When it is off nothing is recorded.
// A plain value.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"

namespace quire::context {

enum class Tracking { kOff, kOn };

class AlignedText {
 public:
  /// `text` as it stands at byte `begin` of the input.
  AlignedText(std::string_view text, size_t begin, Tracking tracking)
      : text_(text), begin_(begin), end_(begin + text.size()), tracking_(tracking) {}

  std::string_view text() const { return text_; }
  Tracking tracking() const { return tracking_; }
  /// Bytes of the input that this stands for.
  size_t begin() const { return begin_; }
  size_t end() const { return end_; }

  /// The input byte that byte i of text() stands for. Requires tracking; i may be text().size().
  size_t origin(size_t i) const {
    QUIRE_CHECK(tracking_ == Tracking::kOn, "origin() of an untracked text");
    if (i >= text_.size()) return end_;
    return origins_.empty() ? begin_ + i : origins_[i];
  }

  /// The part [from, to) of text(), as a text of its own.
  AlignedText part(size_t from, size_t to) const;

  /// Writes the new version of an AlignedText from left to right.
  class Rewriter {
   public:
    explicit Rewriter(AlignedText& target) : target_(target) {}
    /// Keeps the old bytes [from, to).
    void keep(size_t from, size_t to);
    /// Writes bytes that stand for what the old byte `at` stands for.
    void write(std::string_view text, size_t at);
    /// Bytes written so far.
    size_t size() const { return text_.size(); }
    /// Replaces the target by what was written.
    void finish();

   private:
    AlignedText& target_;
    std::string text_;
    std::vector<size_t> origins_;
  };

 private:
  std::string text_;
  size_t begin_;
  size_t end_;
  Tracking tracking_;
  std::vector<size_t> origins_;  // one a byte; empty while the text is the input's own
};

}  // namespace quire::context
