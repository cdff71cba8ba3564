#include "cli/document_retrieval.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/utf8.h"
#include "cli/home.h"
#include "cli/interrupt.h"
#include "engine/logprobs.h"

namespace quire::cli {
namespace {

using context::RetrievedChunk;
using formats::Json;

constexpr int64_t kMostDefaultTokens = 1024;

int64_t count_tokens(const context::Tokenizer& tokenizer, const RetrievedChunk& chunk) {
  return static_cast<int64_t>(
      tokenizer.encode(context::prompt_text(chunk), context::Special::kPlain).size());
}

/// The mean log-probability of the question's tokens after the piece.
Result<double> question_logprob(engine::Engine& engine, const RetrievedChunk& chunk,
                                const std::string& question) {
  const context::Tokenizer& tokenizer = engine.model().tokenizer();
  std::vector<TokenId> tokens(tokenizer.prefix().begin(), tokenizer.prefix().end());
  const auto add = [&](const std::string& text) {
    const std::vector<TokenId> ids = tokenizer.encode(text, context::Special::kPlain);
    tokens.insert(tokens.end(), ids.begin(), ids.end());
  };
  add(context::prompt_text(chunk) + "Question:");
  const size_t before = tokens.size();
  add(" " + question);
  QUIRE_TRY_VOID(engine::check_fits(engine.window(), static_cast<int64_t>(tokens.size()), 0));
  engine::Sequence sequence = engine.create_sequence();
  const std::span all(tokens);
  if (before > 1) {
    const auto logits = engine.append(sequence, all.first(before - 1));
    if (!logits.ok()) return logits.error();
  }
  double sum = 0.0;
  const std::span judged = all.subspan(before - 1);
  QUIRE_TRY_VOID(engine.append_all_logits(
      sequence, judged, [&](int64_t index, std::span<const float> logits) -> Result<void> {
        const auto next = static_cast<size_t>(index) + 1;
        if (next < judged.size()) sum += engine::logprob(logits, judged[next]);
        return {};
      }));
  return judged.size() > 1 ? sum / static_cast<double>(judged.size() - 1) : 0.0;
}

Result<std::vector<RetrievedChunk>> judged_by_model(engine::Engine& engine,
                                                    std::vector<RetrievedChunk> candidates,
                                                    const std::string& question, Output& output) {
  const auto total = static_cast<double>(std::min(candidates.size(), context::kReranked));
  double done = 0.0;
  const auto scorer = [&](const RetrievedChunk& chunk) -> Result<double> {
    output.progress("judging the pieces", done / total);
    if (interrupted()) return Error{ErrorCode::kInterrupted, ""};
    done += 1.0;
    return question_logprob(engine, chunk, question);
  };
  auto ranked = context::rerank(std::move(candidates), scorer);
  output.clear_progress();
  return ranked;
}

}  // namespace

void declare(OptionParser& parser, DocumentOptions& options) {
  parser.add({{"--docs"},
              "",
              "put pieces of the documents of 'quire docs' before the question, by its words",
              set(options.use)});
  parser.add({{"--docs-tokens"},
              "N",
              "tokens of such pieces at most (default: a quarter of the window, at most 1024)",
              store_int(options.max_tokens, 1, INT64_MAX)});
  parser.add({{"--rerank"},
              "",
              "let the model choose among the 20 best: how likely is the question after each",
              set(options.rerank)});
}

Result<std::unique_ptr<context::DocumentStore>> open_documents(const Environment& env,
                                                               Output& output) {
  QUIRE_TRY(const std::string home, private_home(env, output));
  return context::DocumentStore::open(home + "/documents.db");
}

Result<ChosenChunks> choose_chunks(const Environment& env, engine::Engine& engine,
                                   const std::string& question, const DocumentOptions& options,
                                   Output& output) {
  // No index is asked about a question that no answer can follow.
  const context::Tokenizer& tokenizer = engine.model().tokenizer();
  const int64_t length = std::ssize(tokenizer.encode(question, context::Special::kPlain));
  QUIRE_TRY_VOID(engine::check_fits(engine.window(), length, std::nullopt));
  QUIRE_TRY(const auto store, open_documents(env, output));
  QUIRE_TRY(std::vector<RetrievedChunk> candidates, store->find(question, context::kCandidates));
  ChosenChunks chosen;
  chosen.candidates = static_cast<int64_t>(candidates.size());
  if (options.rerank && candidates.size() > 1) {
    QUIRE_TRY(candidates, judged_by_model(engine, std::move(candidates), question, output));
    chosen.reranked = true;
  }
  const int64_t room =
      options.max_tokens.value_or(std::min(engine.window().tokens / 4, kMostDefaultTokens));
  chosen.chunks = context::stable_order(
      context::fitting(
          context::diverse_order(std::move(candidates)), room,
          [&tokenizer](const RetrievedChunk& chunk) { return count_tokens(tokenizer, chunk); }),
      {});
  return chosen;
}

std::string ChosenChunks::prompt_text() const {
  std::string text;
  for (const RetrievedChunk& chunk : chunks) text += context::prompt_text(chunk);
  return text;
}

std::vector<context::window::Chunk> ChosenChunks::window_chunks() const {
  std::vector<context::window::Chunk> parts;
  std::set<std::string> ids;
  for (const RetrievedChunk& chunk : chunks) {
    std::string id =
        fmt::format("{}:{}-{}", utf8_sanitized(chunk.source), chunk.first_line, chunk.last_line);
    // Several pieces of one long line are told apart by their bytes.
    if (!ids.insert(id).second) id += fmt::format("@{}", chunk.begin);
    ids.insert(id);
    parts.push_back({.id = std::move(id),
                     .source = utf8_sanitized(chunk.label()),
                     .text = utf8_sanitized(chunk.text),
                     .score = chunk.score,
                     .message = std::nullopt});
  }
  return parts;
}

std::string ChosenChunks::summary() const {
  if (candidates == 0) return "no document holds a word of the question: it stands alone";
  if (chunks.empty())
    return "no piece of a document fits into --docs-tokens: the question stands alone";
  std::set<std::string_view> sources;
  std::string list;
  for (const RetrievedChunk& chunk : chunks) {
    sources.insert(chunk.source);
    list += (list.empty() ? "" : "; ") + utf8_sanitized(chunk.label());
  }
  return fmt::format("{} piece{} of {} document{} before the question: {}", chunks.size(),
                     chunks.size() == 1 ? "" : "s", sources.size(), sources.size() == 1 ? "" : "s",
                     list);
}

Json ChosenChunks::to_json() const {
  Json list(Json::Array{});
  for (const RetrievedChunk& chunk : chunks) list.push_back(chunk_json(chunk));
  Json json;
  json.set("chunks", std::move(list));
  json.set("candidates", candidates);
  json.set("ranking", reranked ? "question likelihood" : "bm25");
  json.set("embeddings", "absent");
  return json;
}

Json chunk_json(const RetrievedChunk& chunk) {
  const auto pair = [](int64_t a, int64_t b) { return Json(Json::Array{Json(a), Json(b)}); };
  Json json;
  json.set("source", utf8_sanitized(chunk.source));
  json.set("lines", pair(chunk.first_line, chunk.last_line));
  json.set("bytes", pair(static_cast<int64_t>(chunk.begin), static_cast<int64_t>(chunk.end)));
  json.set("tokens", chunk.tokens);
  json.set("score", chunk.score);
  json.set("text", utf8_sanitized(chunk.text));
  return json;
}

}  // namespace quire::cli
