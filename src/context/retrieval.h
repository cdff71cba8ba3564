// retrieval.h: from the pieces that were found to those that go into a prompt.
//
// Relevance alone picks the same passage from five copies of a report, so each piece is weighed
// against those picked before it (maximal marginal relevance, Carbonell and Goldstein 1998). The
// order of picking does not depend on how many tokens there is room for: with more room, more is
// picked, never something else. Pure functions but for the scorer; any thread.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "context/document_store.h"

namespace quire::context {

/// How many are ranked, and how many of them a model is asked about.
inline constexpr int64_t kCandidates = 50;
inline constexpr size_t kReranked = 20;

/// Of relevance against novelty, when pieces are weighed.
inline constexpr double kRelevanceShare = 0.7;

/// The candidates in the order in which they would be picked, until one adds nothing that the
/// picked ones do not say.
std::vector<RetrievedChunk> diverse_order(std::vector<RetrievedChunk> candidates,
                                          double relevance_share = kRelevanceShare);

/// How well a piece goes with the question: higher is better.
using ChunkScorer = std::function<Result<double>(const RetrievedChunk& chunk)>;
/// The first kReranked candidates, scored anew, best first.
Result<std::vector<RetrievedChunk>> rerank(std::vector<RetrievedChunk> candidates,
                                           const ChunkScorer& scorer);

/// The longest beginning of `picked` that fits. `tokens_of` counts a piece as it will stand.
std::vector<RetrievedChunk> fitting(std::vector<RetrievedChunk> picked, int64_t max_tokens,
                                    const std::function<int64_t(const RetrievedChunk&)>& tokens_of);

/// The order in which they stand in a prompt: those of `earlier` first, as they stood there, then
/// the others in the order of their documents. What was in the last prompt stays at its place, and
/// so do its keys and values.
std::vector<RetrievedChunk> stable_order(std::vector<RetrievedChunk> chunks,
                                         std::span<const int64_t> earlier);

/// A piece as it stands in a prompt, before the question: "[report.txt, lines 10-24]\n...\n\n".
std::string prompt_text(const RetrievedChunk& chunk);

}  // namespace quire::context
