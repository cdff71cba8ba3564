#include "context/window/retriever.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/utf8.h"

namespace quire::context::window {
namespace {

/// Scripts that are written without blanks: Han, kana, Hangul.
bool is_dense(uint32_t c) {
  return (c >= 0x3040 && c <= 0x30FF) || (c >= 0x3400 && c <= 0x9FFF) ||
         (c >= 0xAC00 && c <= 0xD7AF) || (c >= 0xF900 && c <= 0xFAFF) ||
         (c >= 0x20000 && c <= 0x3FFFF);
}

bool is_word(uint32_t c) {
  const bool ascii =
      (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  return ascii || c >= 0x80;
}

/// Words in lower case (ASCII), and neighbouring pairs of characters of dense scripts.
std::vector<std::string> terms_of(std::string_view text) {
  std::vector<std::string> terms;
  std::string word, last;
  const auto end_word = [&] {
    if (!word.empty()) terms.push_back(std::move(word));
    word.clear();
  };
  while (!text.empty()) {
    const Utf8Char next = utf8_next(text);
    std::string character(text.substr(0, static_cast<size_t>(next.bytes)));
    text.remove_prefix(static_cast<size_t>(next.bytes));
    if (is_dense(next.code_point)) {
      end_word();
      if (!last.empty()) terms.push_back(last + character);
      last = std::move(character);
      continue;
    }
    last.clear();
    if (!is_word(next.code_point)) {
      end_word();
    } else if (next.code_point < 0x80) {
      word += static_cast<char>(std::tolower(static_cast<int>(next.code_point)));
    } else {
      word += character;
    }
  }
  end_word();
  return terms;
}

}  // namespace

std::vector<Chunk> WordRetriever::find(std::string_view question,
                                       const std::vector<Passage>& passages, size_t most) {
  const std::vector<std::string> asked = terms_of(question);
  const std::set<std::string> wanted(asked.begin(), asked.end());
  std::vector<std::map<std::string, int64_t>> counts;
  std::map<std::string, int64_t> holders;
  std::vector<double> lengths;
  double total = 0;
  for (const Passage& passage : passages) {
    const std::vector<std::string> terms = terms_of(passage.text);
    counts.emplace_back();
    for (const std::string& term : terms) {
      if (wanted.contains(term)) ++counts.back()[term];
    }
    for (const auto& [term, count] : counts.back()) ++holders[term];
    lengths.push_back(static_cast<double>(terms.size()));
    total += lengths.back();
  }
  const auto n = static_cast<double>(passages.size());
  const double mean = passages.empty() ? 1.0 : std::max(total / n, 1.0);
  std::vector<Chunk> found;
  for (size_t i = 0; i < passages.size(); ++i) {
    double score = 0;
    for (const auto& [term, count] : counts[i]) {
      const auto with = static_cast<double>(holders[term]);
      const auto times = static_cast<double>(count);
      const double idf = std::log(1.0 + (n - with + 0.5) / (with + 0.5));
      score += idf * times * 2.2 / (times + 1.2 * (0.25 + 0.75 * lengths[i] / mean));
    }
    if (score <= 0) continue;
    found.push_back({.id = fmt::format("{}.{}", passages[i].source, i),
                     .source = passages[i].source,
                     .text = passages[i].text,
                     .score = score,
                     .message = passages[i].message});
  }
  std::ranges::stable_sort(found, std::ranges::greater(), &Chunk::score);
  if (found.size() > most) found.resize(most);
  return found;
}

}  // namespace quire::context::window
