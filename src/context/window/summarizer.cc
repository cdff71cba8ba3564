#include "context/window/summarizer.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <set>

#include "base/utf8.h"
#include "context/window/cut_text.h"

namespace quire::context::window {
namespace {

bool is_alpha(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || static_cast<unsigned char>(c) >= 0x80;
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_upper(char c) {
  return c >= 'A' && c <= 'Z';
}

/// Words of letters and digits, with where they begin.
template <class Visit>
void for_each_word(std::string_view text, Visit visit) {
  for (size_t at = 0; at < text.size();) {
    if (!is_alpha(text[at]) && !is_digit(text[at])) {
      ++at;
      continue;
    }
    size_t end = at;
    const auto inside = [&](char c) {
      return is_alpha(c) || is_digit(c) || c == '_' || c == '-' || c == '\'';
    };
    while (end < text.size() && inside(text[end])) ++end;
    visit(text.substr(at, end - at), at);
    at = end;
  }
}

void add_once(std::vector<std::string>& list, std::string value) {
  if (std::ranges::count(list, value) == 0) list.push_back(std::move(value));
}

struct Sentence {
  size_t piece = 0;
  std::string_view text;
  double score = 0.0;
  int64_t tokens = 0;
};

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

/// "Ms.", "Dr.", "St.": the period belongs to the word.
bool ends_with_title(std::string_view text) {
  size_t begin = text.size();
  while (begin > 0 && is_alpha(text[begin - 1])) --begin;
  const std::string_view word = text.substr(begin);
  return !word.empty() && word.size() <= 3 && is_upper(word.front());
}

/// Ends at a line's end, or after . ! ? and a blank, or after their full-width forms.
std::vector<std::string_view> sentences_of(std::string_view text) {
  std::vector<std::string_view> sentences;
  size_t begin = 0;
  const auto end_at = [&](size_t end) {
    const std::string_view sentence = trimmed(text.substr(begin, end - begin));
    if (!sentence.empty()) sentences.push_back(sentence);
    begin = end;
  };
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = utf8_next(text.substr(at));
    const size_t next = at + static_cast<size_t>(c.bytes);
    const bool wide = c.code_point == 0x3002 || c.code_point == 0xFF01 || c.code_point == 0xFF1F;
    const bool stop = text[at] == '.' || text[at] == '!' || text[at] == '?';
    const bool at_blank = next >= text.size() || text[next] == ' ' || text[next] == '\n';
    const bool title = text[at] == '.' && ends_with_title(text.substr(0, at));
    if (text[at] == '\n' || wide || (stop && at_blank && !title)) end_at(next);
    at = next;
  }
  end_at(text.size());
  return sentences;
}

std::string lower(std::string_view word) {
  std::string out(word);
  std::ranges::transform(out, out.begin(), [](char c) {
    return static_cast<unsigned char>(c) < 0x80
               ? static_cast<char>(std::tolower(static_cast<unsigned char>(c)))
               : c;
  });
  return out;
}

/// How often each longer word occurs.
std::map<std::string, int64_t> word_counts(const SummaryInput& input) {
  std::map<std::string, int64_t> counts;
  for (const SummaryInput::Piece& piece : input.pieces) {
    for_each_word(piece.text, [&](std::string_view word, size_t) {
      if (word.size() > 3) ++counts[lower(word)];
    });
  }
  return counts;
}

/// Words that recur, numbers and names make a sentence worth keeping; so does being asked for.
double score_of(std::string_view sentence, const std::map<std::string, int64_t>& counts,
                bool opens_user_message) {
  double score = 0.0;
  double words = 1.0;
  std::set<std::string> seen;
  for_each_word(sentence, [&](std::string_view word, size_t) {
    words += 1.0;
    const std::string key = lower(word);
    const auto found = counts.find(key);
    if (found == counts.end() || !seen.insert(key).second) return;
    // What recurs everywhere says no more than what recurs.
    score += std::log2(1.0 + static_cast<double>(std::min<int64_t>(found->second, 3)));
  });
  score += 3.0 * static_cast<double>(numbers_in(sentence).size());
  score += 2.0 * static_cast<double>(names_in(sentence).size());
  if (opens_user_message) score += 1.0;
  return score / std::sqrt(words);
}

double share_kept(const std::vector<std::string>& wanted, const std::string& text) {
  if (wanted.empty()) return 1.0;
  const auto kept = std::ranges::count_if(
      wanted, [&](const std::string& w) { return text.find(w) != std::string::npos; });
  return static_cast<double>(kept) / static_cast<double>(wanted.size());
}

}  // namespace

std::vector<std::string> numbers_in(std::string_view text) {
  std::vector<std::string> numbers;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && (is_digit(text[end]) || (end > at && end + 1 < text.size() &&
                                                         (text[end] == '.' || text[end] == ',') &&
                                                         is_digit(text[end + 1])))) {
      ++end;
    }
    if (end - at >= 2) add_once(numbers, std::string(text.substr(at, end - at)));
    at = std::max(end, at + 1);
  }
  return numbers;
}

std::vector<std::string> names_in(std::string_view text) {
  std::vector<std::string> names;
  for_each_word(text, [&](std::string_view word, size_t at) {
    if (word.size() < 2) return;
    const bool first_of_sentence = at == 0 ||
                                   (at >= 2 && (text[at - 2] == '.' || text[at - 2] == '!' ||
                                                text[at - 2] == '?' || text[at - 2] == ':')) ||
                                   text[at - 1] == '\n';
    const bool capital = is_upper(word.front()) && !first_of_sentence;
    const bool inner =
        std::ranges::any_of(word.substr(1), is_upper) || word.find('_') != std::string_view::npos;
    if (capital || inner) add_once(names, std::string(word));
  });
  return names;
}

void measure(const SummaryInput& input, Summary& summary) {
  std::vector<std::string> numbers, names;
  for (const SummaryInput::Piece& piece : input.pieces) {
    for (std::string& number : numbers_in(piece.text)) add_once(numbers, std::move(number));
    for (std::string& name : names_in(piece.text)) add_once(names, std::move(name));
  }
  summary.numbers_kept = share_kept(numbers, summary.text);
  summary.names_kept = share_kept(names, summary.text);
}

Result<Summary> ExtractiveSummarizer::summarize(const SummaryInput& input) {
  const std::map<std::string, int64_t> counts = word_counts(input);
  std::vector<Sentence> sentences;
  for (size_t p = 0; p < input.pieces.size(); ++p) {
    bool first = input.pieces[p].role == "user";
    for (const std::string_view text : sentences_of(input.pieces[p].text)) {
      sentences.push_back({p, text, score_of(text, counts, first), 0});
      first = false;
    }
  }
  std::vector<size_t> order(sentences.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(
      order, [&](size_t a, size_t b) { return sentences[a].score > sentences[b].score; });
  std::set<size_t> chosen;
  std::set<std::string_view> said;
  int64_t left = input.max_tokens;
  const auto line_of = [&](const Sentence& sentence) {
    return input.pieces[sentence.piece].role + ": " + std::string(sentence.text) + "\n";
  };
  for (const size_t i : order) {
    if (left < 4) break;
    if (!said.insert(sentences[i].text).second) continue;
    const int64_t tokens = count_text(tokenizer_, line_of(sentences[i])) + 1;
    if (tokens > left) continue;
    left -= tokens;
    chosen.insert(i);
  }
  Summary summary;
  summary.method = "extraction";
  for (const size_t i : chosen) summary.text += line_of(sentences[i]);
  if (chosen.empty() && !order.empty()) summary.text = line_of(sentences[order.front()]);
  summary.text = std::string(first_tokens(tokenizer_, summary.text, input.max_tokens));
  measure(input, summary);
  return summary;
}

}  // namespace quire::context::window
