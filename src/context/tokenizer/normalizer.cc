#include "context/tokenizer/normalizer.h"

#include "context/tokenizer/white_space.h"

namespace quire::context {
namespace {

class Applier {
 public:
  Applier(AlignedText& text, RegexScratch& scratch) : text_(text), scratch_(scratch) {}

  void operator()(UnicodeForm form) { normalize_unicode(text_, form); }

  void operator()(const Prepend& step) {
    if (text_.text().empty()) return;
    AlignedText::Rewriter rewriter(text_);
    rewriter.write(step.text, 0);
    rewriter.keep(0, text_.text().size());
    rewriter.finish();
  }

  void operator()(const Replace& step) {
    AlignedText::Rewriter rewriter(text_);
    size_t kept = 0;
    bool changed = false;
    step.pattern.for_each_match(text_.text(), scratch_, [&](ByteRange match) {
      rewriter.keep(kept, match.begin);
      rewriter.write(step.with, match.begin);
      kept = match.end;
      changed = true;
    });
    if (!changed) return;
    rewriter.keep(kept, text_.text().size());
    rewriter.finish();
  }

  void operator()(const Strip& step) {
    const std::string_view text = text_.text();
    const size_t begin = step.left ? leading_white_space(text) : 0;
    const size_t end = step.right ? text.size() - trailing_white_space(text) : text.size();
    if (begin == 0 && end == text.size()) return;
    AlignedText::Rewriter rewriter(text_);
    if (begin < end) rewriter.keep(begin, end);
    rewriter.finish();
  }

 private:
  AlignedText& text_;
  RegexScratch& scratch_;
};

}  // namespace

void Normalizer::apply(AlignedText& text, RegexScratch& scratch) const {
  for (const NormalizerStep& step : steps_) std::visit(Applier(text, scratch), step);
}

}  // namespace quire::context
