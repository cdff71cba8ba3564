// search_text.h: what is indexed of a text, and how a question asks for it.
//
// SQLite's unicode61 takes a run of Chinese for one word and so cannot find 缓存 inside it. Here
// the runs of scripts written without spaces are taken apart: every two neighbouring characters are
// a term, and a run's last one alone, so that any piece of one or more characters is found. Other
// scripts stay with unicode61. Both sides are normalized (NFKC). Pure functions.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace quire::context {

/// The two columns of a full-text index: a table with the columns `words` and `bigrams`, made with
/// kSearchTokenizer.
struct SearchText {
  std::string words;
  std::string bigrams;
};
SearchText search_text(std::string_view text);

inline constexpr std::string_view kSearchTokenizer = "unicode61 remove_diacritics 2";

enum class MatchTerms {
  kAll,  // every term must be there, runs of characters as they stand: what a person looks for
  kAny,  // any term may be: what is near a question; runs are taken apart
};

/// An FTS5 expression in which all that the user wrote is quoted; empty if there is no letter or
/// digit to look for.
std::string match_expression(std::string_view query, MatchTerms terms);

/// What a query asks for: words, and runs of characters of scripts without spaces, in order.
std::vector<std::string> query_terms(std::string_view query);

/// What an index knows a text by: words in lower case, and bigrams. In order, with repetitions.
std::vector<std::string> index_terms(std::string_view text);

/// One line of about `characters` characters around the first term that stands in `text`.
std::string excerpt(std::string_view text, std::string_view query, size_t characters);

}  // namespace quire::context
