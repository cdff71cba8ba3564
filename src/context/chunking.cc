#include "context/chunking.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/check.h"
#include "base/utf8.h"

namespace quire::context {
namespace {

/// How good a place to end at is; higher is better.
enum class Border : uint8_t { kWord, kLine, kSentence, kParagraph };
constexpr size_t kNumBorders = 4;

/// Ends that lie behind `at`: for each kind, ascending.
using Borders = std::array<std::vector<size_t>, kNumBorders>;

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f' || c == '\v';
}

bool ends_sentence(uint32_t c) {
  return c == '.' || c == '!' || c == '?' || c == 0x2026;
}

/// 。！？；｡ end a sentence without a space behind them.
bool ends_sentence_alone(uint32_t c) {
  return c == 0x3002 || c == 0xFF01 || c == 0xFF1F || c == 0xFF1B || c == 0xFF61;
}

bool closes(uint32_t c) {
  return c == '"' || c == '\'' || c == ')' || c == ']' || c == 0x2019 || c == 0x201D ||
         c == 0x300D || c == 0x300F || c == 0xFF09;
}

/// Characters between which a line may be broken anywhere: Han and Kana.
bool breaks_anywhere(uint32_t c) {
  return (c >= 0x3041 && c <= 0x30FF) || (c >= 0x3400 && c <= 0x9FFF) ||
         (c >= 0x20000 && c <= 0x3FFFF);
}

/// Whether the line that starts at `at` is empty, or a heading of Markdown.
bool begins_paragraph(std::string_view text, size_t at) {
  while (at < text.size() && (text[at] == ' ' || text[at] == '\t' || text[at] == '\r')) ++at;
  return at < text.size() && (text[at] == '\n' || text[at] == '#');
}

class BorderFinder {
 public:
  explicit BorderFinder(std::string_view text) : text_(text) {}

  Borders find() {
    for (size_t at = 0; at < text_.size();) {
      const Utf8Char c = utf8_next(text_.substr(at));
      at += static_cast<size_t>(c.bytes);
      note(c.code_point, at);
    }
    return std::move(borders_);
  }

 private:
  /// `at` is behind the character.
  void note(uint32_t c, size_t at) {
    if (c < 0x80 && is_blank(static_cast<char>(c))) {
      if (sentence_ended_) add(Border::kSentence, at);
      sentence_ended_ = false;
      add(Border::kWord, at);
      if (c == '\n') {
        add(begins_paragraph(text_, at) ? Border::kParagraph : Border::kLine, at);
      }
      return;
    }
    if (closes(c)) {
      if (sentence_ended_alone_) add(Border::kSentence, at);
      return;
    }
    sentence_ended_ = ends_sentence(c);
    sentence_ended_alone_ = ends_sentence_alone(c);
    if (sentence_ended_alone_) add(Border::kSentence, at);
    if (breaks_anywhere(c)) add(Border::kWord, at);
  }

  void add(Border border, size_t at) { borders_[static_cast<size_t>(border)].push_back(at); }

  std::string_view text_;
  Borders borders_;
  bool sentence_ended_ = false;
  bool sentence_ended_alone_ = false;
};

/// The last place of one kind in (after, limit], or 0.
size_t last_border(const std::vector<size_t>& ends, size_t after, size_t limit) {
  const auto next = std::ranges::upper_bound(ends, limit);
  if (next == ends.begin() || *(next - 1) <= after) return 0;
  return *(next - 1);
}

class Cutter {
 public:
  Cutter(const Tokenizer& tokenizer, std::string_view text, int64_t max_tokens)
      : tokenizer_(tokenizer), text_(text), max_tokens_(static_cast<size_t>(max_tokens)) {}

  std::vector<TextChunk> cut() {
    borders_ = BorderFinder(text_).find();
    encoding_ = tokenizer_.encode_with_ranges(text_, std::array{ByteRange{0, text_.size()}});
    for (size_t begin = 0; begin < text_.size();) {
      const size_t end = end_of_piece(begin);
      QUIRE_CHECK(end > begin, "a piece of a document is empty");
      add_piece(begin, end);
      begin = end;
    }
    return std::move(chunks_);
  }

 private:
  /// Where the token lies that is `count` after the one at byte `begin`; the text's end if it has
  /// no more.
  size_t byte_after_tokens(size_t begin, size_t count) const {
    const auto& ranges = encoding_.ranges;
    const auto first = std::ranges::lower_bound(ranges, begin, {}, &ByteRange::begin);
    const auto left = static_cast<size_t>(ranges.end() - first);
    return count < left ? (first + static_cast<ptrdiff_t>(count))->begin : text_.size();
  }

  size_t end_of_piece(size_t begin) const {
    const size_t limit = byte_after_tokens(begin, max_tokens_);
    if (limit == text_.size()) return limit;
    const size_t half = byte_after_tokens(begin, max_tokens_ / 2);
    const auto last = [&](Border border, size_t after) {
      return last_border(borders_[static_cast<size_t>(border)], after, limit);
    };
    // A paragraph that would leave the piece less than half full waits behind a sentence.
    for (const auto& [border, after] :
         {std::pair{Border::kParagraph, half}, std::pair{Border::kSentence, begin},
          std::pair{Border::kParagraph, begin}, std::pair{Border::kLine, begin},
          std::pair{Border::kWord, begin}}) {
      if (const size_t end = last(border, after); end > begin) return end;
    }
    return whole_character(begin, limit);
  }

  /// `limit`, or where a character ends next to it.
  size_t whole_character(size_t begin, size_t limit) const {
    const auto continues = [&](size_t at) {
      return at < text_.size() && (static_cast<unsigned char>(text_[at]) & 0xC0) == 0x80;
    };
    size_t end = limit;
    while (end > begin && continues(end)) --end;
    if (end > begin) return end;
    end = std::max(limit, begin + 1);
    while (continues(end)) ++end;
    return end;
  }

  /// Without the white space around it; nothing if it is nothing else.
  void add_piece(size_t begin, size_t end) {
    const int64_t first = line_;
    line_ += std::count(text_.begin() + static_cast<ptrdiff_t>(begin),
                        text_.begin() + static_cast<ptrdiff_t>(end), '\n');
    TextChunk chunk{.begin = begin, .end = end, .first_line = first};
    while (chunk.end > chunk.begin && is_blank(text_[chunk.end - 1])) --chunk.end;
    while (chunk.begin < chunk.end && is_blank(text_[chunk.begin])) {
      if (text_[chunk.begin++] == '\n') ++chunk.first_line;
    }
    if (chunk.begin == chunk.end) return;
    const std::string_view piece = text_.substr(chunk.begin, chunk.end - chunk.begin);
    chunk.last_line = chunk.first_line + std::ranges::count(piece, '\n');
    chunk.tokens = static_cast<int64_t>(tokenizer_.encode(piece, Special::kPlain).size());
    chunks_.push_back(chunk);
  }

  const Tokenizer& tokenizer_;
  std::string_view text_;
  size_t max_tokens_;
  Borders borders_;
  Tokenizer::Encoding encoding_;
  int64_t line_ = 1;
  std::vector<TextChunk> chunks_;
};

}  // namespace

std::vector<TextChunk> cut_into_chunks(const Tokenizer& tokenizer, std::string_view text,
                                       int64_t max_tokens) {
  QUIRE_CHECK(max_tokens > 0, "pieces of no tokens");
  return Cutter(tokenizer, text, max_tokens).cut();
}

}  // namespace quire::context
