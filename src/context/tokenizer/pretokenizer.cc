#include "context/tokenizer/pretokenizer.h"

#include <algorithm>

#include "base/utf8.h"
#include "context/tokenizer/byte_level.h"

namespace quire::context {
namespace {

/// Cuts one word by one pattern and appends the parts.
class Cutter {
 public:
  Cutter(const Split& split, std::vector<ByteRange>& out) : split_(split), out_(out) {}

  void cut(std::string_view text, ByteRange word, RegexScratch& scratch) {
    word_begin_ = out_.size();
    was_match_ = false;
    size_t done = word.begin;
    const std::string_view inside = text.substr(word.begin, word.end - word.begin);
    split_.pattern.for_each_match(inside, scratch, [&](ByteRange match) {
      const size_t begin = word.begin + match.begin;
      const size_t end = word.begin + match.end;
      if (done < begin) add({done, begin}, split_.at == SplitAt::kGaps);
      add({begin, end}, split_.at == SplitAt::kMatches);
      done = end;
    });
    if (done < word.end) add({done, word.end}, split_.at == SplitAt::kGaps);
  }

 private:
  void add(ByteRange part, bool is_match) {
    const bool first = out_.size() == word_begin_;
    bool joins = false;
    switch (split_.behavior) {
      case SplitBehavior::kRemoved:
        if (is_match) return;
        break;
      case SplitBehavior::kIsolated:
        break;
      case SplitBehavior::kMergedWithPrevious:
        joins = is_match && !was_match_;
        break;
      case SplitBehavior::kMergedWithNext:
        joins = !is_match && was_match_;
        break;
      case SplitBehavior::kContiguous:
        joins = is_match == was_match_;
        break;
    }
    was_match_ = is_match;
    if (joins && !first) {
      out_.back().end = part.end;
    } else if (part.begin < part.end) {
      out_.push_back(part);
    }
  }

  const Split& split_;
  std::vector<ByteRange>& out_;
  size_t word_begin_ = 0;  // index in out_ of the first part of the current word
  bool was_match_ = false;
};

class Applier {
 public:
  Applier(Words& words, RegexScratch& scratch) : words_(words), scratch_(scratch) {}

  void operator()(const Split& split) {
    std::vector<ByteRange> parts;
    parts.reserve(words_.ranges.size() + words_.text.text().size() / 4);
    Cutter cutter(split, parts);
    for (const ByteRange word : words_.ranges) cutter.cut(words_.text.text(), word, scratch_);
    words_.ranges = std::move(parts);
  }

  void operator()(PrefixSpace) {
    rewrite([&](AlignedText::Rewriter& rewriter, std::string_view word, size_t begin) {
      if (!word.starts_with(' ')) rewriter.write(" ", begin);
      rewriter.keep(begin, begin + word.size());
    });
  }

  void operator()(const Metaspace& step) {
    using PrependTo = Metaspace::PrependTo;
    const bool at_start = words_.text.begin() == 0;
    rewrite([&](AlignedText::Rewriter& rewriter, std::string_view word, size_t begin) {
      const bool prepend = step.prepend_to == PrependTo::kEach ||
                           (step.prepend_to == PrependTo::kFirst && at_start && begin == 0);
      if (prepend && !word.starts_with(' ') && !word.starts_with(step.replacement)) {
        rewriter.write(step.replacement, begin);
      }
      for (size_t i = 0; i < word.size();) {
        const size_t end = std::min(word.find(' ', i), word.size());
        rewriter.keep(begin + i, begin + end);
        if (end < word.size()) rewriter.write(step.replacement, begin + end);
        i = end + 1;
      }
    });
    if (!step.splits) return;
    (*this)(Split{Pattern::literal(step.replacement), SplitBehavior::kMergedWithNext});
  }

  void operator()(ToByteCharacters) {
    rewrite([&](AlignedText::Rewriter& rewriter, std::string_view word, size_t begin) {
      for (size_t i = 0; i < word.size(); ++i) {
        rewriter.write(byte_level_character(static_cast<uint8_t>(word[i])), begin + i);
      }
    });
  }

  void operator()(FromByteCharacters) {
    rewrite([&](AlignedText::Rewriter& rewriter, std::string_view word, size_t begin) {
      for (size_t i = 0; i < word.size();) {
        const Utf8Char c = utf8_next(word.substr(i));
        const char byte = static_cast<char>(byte_level_byte(c.code_point).value());
        rewriter.write(std::string_view(&byte, 1), begin + i);
        i += static_cast<size_t>(c.bytes);
      }
    });
  }

 private:
  /// Lets write_word(rewriter, word, its begin) write every word anew.
  template <class WriteWord>
  void rewrite(WriteWord write_word) {
    const std::string_view old = words_.text.text();
    AlignedText::Rewriter rewriter(words_.text);
    std::vector<ByteRange> ranges;
    ranges.reserve(words_.ranges.size());
    for (const ByteRange word : words_.ranges) {
      const size_t begin = rewriter.size();
      write_word(rewriter, old.substr(word.begin, word.end - word.begin), word.begin);
      ranges.push_back({begin, rewriter.size()});
    }
    rewriter.finish();
    words_.ranges = std::move(ranges);
  }

  Words& words_;
  RegexScratch& scratch_;
};

}  // namespace

Words PreTokenizer::apply(AlignedText text, RegexScratch& scratch) const {
  Words words{std::move(text), {}};
  if (words.text.text().empty()) return words;
  words.ranges.push_back({0, words.text.text().size()});
  for (const PreTokenizerStep& step : steps_) std::visit(Applier(words, scratch), step);
  return words;
}

}  // namespace quire::context
