#include "context/tokenizer/regex_syntax.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "base/utf8.h"
#include "context/tokenizer/unicode_additions.h"
#include "formats/printable.h"

namespace quire::context {
namespace {

constexpr std::string_view kWhiteSpace =
    R"(\x09-\x0D\x20\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
/// Oniguruma's \w besides \p{L}\p{M}\p{Nl}\p{Nd}\p{Pc}: letters in circles, and Latin-1's numbers.
constexpr std::string_view kMoreWord =
    R"(\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE}\x{24B6}-\x{24E9}\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189})";
constexpr std::string_view kHanAdditions = R"(\x{2EBF0}-\x{2EE5D}\x{31350}-\x{323AF})";

constexpr auto kCategories = std::to_array<std::string_view>(
    {"L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M", "Mn", "Mc", "Me", "N",  "Nd", "Nl", "No", "P", "Pc",
     "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S", "Sm", "Sc", "Sk", "So", "Z",  "Zs", "Zl", "Zp"});

/// The inside of a character class that holds general category `name` as Unicode 16 knows it.
std::string category_class(std::string_view name) {
  std::string inside = fmt::format("\\p{{{}}}", name);
  for (const UnicodeAddition& added : unicode_additions()) {
    if (!added.category.starts_with(name)) continue;
    inside += fmt::format("\\x{{{:X}}}-\\x{{{:X}}}", added.first, added.last);
  }
  return inside;
}

/// Walks one pattern from left to right and writes its translation.
class Translator {
 public:
  Translator(std::string_view pattern, std::string_view what) : in_(pattern), what_(what) {}

  Result<std::string> run() {
    while (at_ < in_.size()) QUIRE_TRY_VOID(item());
    return std::move(out_);
  }

 private:
  /// A set of characters: what stands inside the brackets, and whether it is the complement.
  struct Set {
    std::string inside;
    bool negated = false;
  };

  char peek(size_t ahead = 0) const { return at_ + ahead < in_.size() ? in_[at_ + ahead] : '\0'; }
  bool next_is(std::string_view text) const { return in_.substr(at_).starts_with(text); }

  Error unsupported(std::string_view construct) const {
    return {ErrorCode::kUnsupported,
            fmt::format("{} uses {}, which Quire does not translate: {}.", what_,
                        formats::printable(construct), formats::printable(in_))};
  }

  std::string_view take_character() {
    const auto length = static_cast<size_t>(utf8_next(in_.substr(at_)).bytes);
    at_ += length;
    return in_.substr(at_ - length, length);
  }

  void begin_atom() { atom_ = out_.size(); }

  Result<void> item() {
    switch (peek()) {
      case '\\':
        return escape_atom();
      case '[':
        return class_atom();
      case '(':
        return open_group();
      case ')':
        return close_group();
      case '*':
      case '+':
      case '?':
        return quantifier();
      case '{':
        return interval();
      case '|':
        out_ += in_[at_++];
        return {};
      case '.':
        begin_atom();
        out_ += "[^\\n]";
        ++at_;
        return {};
      case '$':
        begin_atom();
        out_ += "(?=\\n|\\z)";
        ++at_;
        return {};
      case '^':
        return unsupported("^");
      default:
        begin_atom();
        out_ += take_character();
        return {};
    }
  }

  Result<void> open_group() {
    static constexpr auto kOpenings =
        std::to_array<std::string_view>({"(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!", "(?>"});
    groups_.push_back(out_.size());
    for (const std::string_view opening : kOpenings) {
      if (!next_is(opening)) continue;
      out_ += opening;
      at_ += opening.size();
      return {};
    }
    if (next_is("(?") || next_is("(*")) return unsupported(in_.substr(at_, 3));
    out_ += "(?:";  // nothing refers back to a group, so it need not capture
    ++at_;
    return {};
  }

  Result<void> close_group() {
    if (groups_.empty()) return unsupported("an unopened )");
    atom_ = groups_.back();
    groups_.pop_back();
    out_ += in_[at_++];
    return {};
  }

  Result<void> quantifier() {
    out_ += in_[at_++];
    if (peek() == '?' || peek() == '+') out_ += in_[at_++];
    return {};
  }

  Result<void> interval() {
    const size_t end = in_.find('}', at_);
    const std::string_view inside =
        end == std::string_view::npos ? "" : in_.substr(at_ + 1, end - at_ - 1);
    const bool is_interval = !inside.empty() &&
                             inside.find_first_not_of("0123456789,") == std::string_view::npos &&
                             inside[0] != ',' && std::ranges::count(inside, ',') <= 1;
    if (!is_interval) return unsupported("a { that opens no interval");
    out_ += in_.substr(at_, end + 1 - at_);
    at_ = end + 1;
    if (peek() == '+') {  // Oniguruma repeats the whole; PCRE2 would make it possessive
      out_.insert(atom_, "(?:");
      out_ += ")+";
      ++at_;
    } else if (peek() == '?') {
      if (inside.find(',') == std::string_view::npos) return unsupported("{n}?");
      out_ += in_[at_++];
    }
    return {};
  }

  Result<void> escape_atom() {
    begin_atom();
    QUIRE_TRY(const Set set, escape());
    const bool is_set = set.negated || set.inside.size() > 1;
    out_ += is_set ? fmt::format("[{}{}]", set.negated ? "^" : "", set.inside)
                   : fmt::format("\\{}", set.inside);
    return {};
  }

  Result<void> class_atom() {
    begin_atom();
    out_ += in_[at_++];
    if (peek() == '^') out_ += in_[at_++];
    if (peek() == ']') return unsupported("[]");
    while (at_ < in_.size() && peek() != ']') {
      if (peek() == '[') return unsupported("a class within a class");
      if (next_is("&&")) return unsupported("&&");
      if (peek() != '\\') {
        out_ += take_character();
        continue;
      }
      QUIRE_TRY(const Set set, escape());
      if (set.negated) return unsupported("a complement within a class");
      if (set.inside.size() == 1) out_ += '\\';
      out_ += set.inside;
    }
    if (at_ == in_.size()) return unsupported("an unclosed [");
    out_ += in_[at_++];
    return {};
  }

  /// What a backslash and what follows stand for. A single character comes back bare.
  Result<Set> escape() {
    const size_t begin = at_++;
    const char c = peek();
    switch (c) {
      case 's':
      case 'S':
        ++at_;
        return Set{std::string(kWhiteSpace), c == 'S'};
      case 'd':
      case 'D':
        ++at_;
        return Set{category_class("Nd"), c == 'D'};
      case 'w':
      case 'W':
        ++at_;
        return Set{word_class(), c == 'W'};
      case 'p':
      case 'P':
        return property();
      case 'r':
        ++at_;
        return Set{"\\x0D"};
      case 'n':
        ++at_;
        return Set{"\\x0A"};
      case 't':
        ++at_;
        return Set{"\\x09"};
      case 'v':
        ++at_;
        return Set{"\\x0B"};
      case 'f':
        ++at_;
        return Set{"\\x0C"};
      case 'x':
      case 'u':
        return hexadecimal();
      default:
        break;
    }
    const bool is_punctuation = c > ' ' && c < 0x7F && !std::isalnum(static_cast<unsigned char>(c));
    if (!is_punctuation && c != ' ') return unsupported(in_.substr(begin, 2));
    ++at_;
    return Set{std::string(1, c)};
  }

  static std::string word_class() {
    std::string inside;
    for (const char* name : {"L", "M", "Nl", "Nd", "Pc"}) inside += category_class(name);
    return inside += kMoreWord;
  }

  Result<Set> property() {
    const size_t begin = at_ - 1;
    bool negated = in_[at_++] == 'P';
    const size_t end = in_.find('}', at_);
    if (peek() != '{' || end == std::string_view::npos) return unsupported(in_.substr(begin, 3));
    std::string_view name = in_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    if (name.starts_with('^')) {
      negated = !negated;
      name.remove_prefix(1);
    }
    if (name == "Han") return Set{fmt::format("\\p{{Han}}{}", kHanAdditions), negated};
    if (std::ranges::find(kCategories, name) == kCategories.end()) {
      return unsupported(in_.substr(begin, at_ - begin));
    }
    return Set{category_class(name), negated};
  }

  Result<Set> hexadecimal() {
    const size_t begin = at_ - 1;
    const bool braced = in_[at_] == 'x' && peek(1) == '{';
    const size_t first = at_ + (braced ? 2 : 1);
    const size_t most = braced ? 6 : in_[at_] == 'x' ? 2 : 4;
    size_t end = first;
    while (end < in_.size() && end - first < most &&
           std::isxdigit(static_cast<unsigned char>(in_[end]))) {
      ++end;
    }
    const bool complete =
        braced ? end > first && end < in_.size() && in_[end] == '}' : end - first == most;
    if (!complete) return unsupported(in_.substr(begin, 3));
    at_ = end + (braced ? 1 : 0);
    return Set{fmt::format("\\x{{{}}}", in_.substr(first, end - first))};
  }

  std::string_view in_;
  std::string_view what_;
  size_t at_ = 0;
  std::string out_;
  size_t atom_ = 0;             // where the last atom begins in out_
  std::vector<size_t> groups_;  // where the open groups begin in out_
};

}  // namespace

Result<std::string> to_pcre2(std::string_view pattern, std::string_view what) {
  if (!utf8_is_valid(pattern)) {
    return Error{ErrorCode::kBadFile, fmt::format("{} is not valid UTF-8.", what)};
  }
  return Translator(pattern, what).run();
}

}  // namespace quire::context
