#include "context/retrieval.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/utf8.h"
#include "context/search_text.h"

namespace quire::context {
namespace {

// Nearly the same words as a piece that was picked: it would say nothing new.
constexpr double kCopy = 0.95;

/// How often each term stands in a text.
using TermCounts = std::map<std::string, double>;

TermCounts count_terms(std::string_view text) {
  TermCounts counts;
  for (std::string& term : index_terms(text)) counts[std::move(term)] += 1.0;
  return counts;
}

double dot(const TermCounts& a, const TermCounts& b) {
  double sum = 0.0;
  for (const auto& [term, count] : a) {
    if (const auto other = b.find(term); other != b.end()) sum += count * other->second;
  }
  return sum;
}

/// The cosine of the angle between their counts: 1 for the same words.
double similarity(const TermCounts& a, const TermCounts& b) {
  const double lengths = std::sqrt(dot(a, a) * dot(b, b));
  return lengths > 0.0 ? dot(a, b) / lengths : 0.0;
}

struct Candidate {
  RetrievedChunk chunk;
  TermCounts terms;
  double relevance = 0.0;  // 0 to 1
  double likeness = 0.0;   // to the most similar one picked so far
};

std::vector<Candidate> weighable(std::vector<RetrievedChunk> chunks) {
  const auto [least, most] = std::ranges::minmax(chunks, {}, &RetrievedChunk::score);
  const double low = std::min(least.score, 0.0);
  const double range = most.score - low;
  std::vector<Candidate> candidates;
  for (RetrievedChunk& chunk : chunks) {
    const double relevance = range > 0.0 ? (chunk.score - low) / range : 1.0;
    TermCounts terms = count_terms(chunk.text);
    candidates.push_back({std::move(chunk), std::move(terms), relevance});
  }
  return candidates;
}

}  // namespace

std::vector<RetrievedChunk> diverse_order(std::vector<RetrievedChunk> candidates,
                                          double relevance_share) {
  if (candidates.empty()) return {};
  std::vector<Candidate> left = weighable(std::move(candidates));
  std::vector<RetrievedChunk> picked;
  while (!left.empty()) {
    const auto worth = [relevance_share](const Candidate& candidate) {
      return relevance_share * candidate.relevance - (1.0 - relevance_share) * candidate.likeness;
    };
    const auto best = std::ranges::max_element(left, {}, worth);  // the first on a tie
    const TermCounts terms = std::move(best->terms);
    picked.push_back(std::move(best->chunk));
    left.erase(best);
    for (Candidate& other : left) {
      other.likeness = std::max(other.likeness, similarity(other.terms, terms));
    }
    std::erase_if(left, [](const Candidate& other) { return other.likeness >= kCopy; });
  }
  return picked;
}

Result<std::vector<RetrievedChunk>> rerank(std::vector<RetrievedChunk> candidates,
                                           const ChunkScorer& scorer) {
  if (candidates.size() > kReranked) candidates.resize(kReranked);
  for (RetrievedChunk& chunk : candidates) {
    QUIRE_TRY(chunk.score, scorer(chunk));
  }
  std::ranges::stable_sort(candidates, std::greater(), &RetrievedChunk::score);
  return candidates;
}

std::vector<RetrievedChunk> fitting(
    std::vector<RetrievedChunk> picked, int64_t max_tokens,
    const std::function<int64_t(const RetrievedChunk&)>& tokens_of) {
  size_t count = 0;
  for (; count < picked.size(); ++count) {
    max_tokens -= tokens_of(picked[count]);
    if (max_tokens < 0) break;
  }
  picked.resize(count);
  return picked;
}

std::vector<RetrievedChunk> stable_order(std::vector<RetrievedChunk> chunks,
                                         std::span<const int64_t> earlier) {
  const auto rank = [earlier](const RetrievedChunk& chunk) {
    const auto found = std::ranges::find(earlier, chunk.id);
    return std::pair(found - earlier.begin(), chunk.id);
  };
  std::ranges::sort(chunks, {}, rank);
  return chunks;
}

std::string prompt_text(const RetrievedChunk& chunk) {
  return "[" + utf8_sanitized(chunk.label()) + "]\n" + utf8_sanitized(chunk.text) + "\n\n";
}

}  // namespace quire::context
