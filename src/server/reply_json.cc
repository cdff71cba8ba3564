#include "server/reply_json.h"

#include <chrono>
#include <numeric>

#include "base/utf8.h"
#include "engine/reports.h"

namespace quire::server {
namespace {

using formats::Json;

double per_second(int64_t count, double ms) {
  return ms > 0.0 ? static_cast<double>(count) * 1000.0 / ms : 0.0;
}

/// {token, logprob, bytes}: the bytes say what the text of half a character cannot.
Json logprob_json(const context::Tokenizer& tokenizer, const engine::TokenLogprob& token) {
  const std::string_view piece = tokenizer.piece(token.id);
  Json bytes(Json::Array{});
  for (const char c : piece) bytes.push_back(int64_t{static_cast<unsigned char>(c)});
  Json json;
  json.set("token", utf8_sanitized(piece));
  json.set("logprob", token.logprob);
  json.set("bytes", std::move(bytes));
  return json;
}

}  // namespace

Json usage_json(const Usage& usage) {
  Json details;
  details.set("cached_tokens", usage.cached_tokens);
  Json completion;
  completion.set("reasoning_tokens", usage.reasoning_tokens);
  Json json;
  json.set("prompt_tokens", usage.prompt_tokens);
  json.set("completion_tokens", usage.completion_tokens);
  json.set("total_tokens", usage.prompt_tokens + usage.completion_tokens);
  json.set("prompt_tokens_details", std::move(details));
  json.set("completion_tokens_details", std::move(completion));
  return json;
}

Json timings_json(const engine::Generated& generated) {
  const int64_t prompt = generated.prompt_tokens - generated.reuse.cached_tokens;
  const auto predicted = static_cast<int64_t>(generated.tokens.size());
  const auto& gaps = generated.timings.gaps_ms;
  const double predicted_ms = std::accumulate(gaps.begin(), gaps.end(), 0.0);
  Json json;
  json.set("cache_n", generated.reuse.cached_tokens);
  json.set("prompt_n", prompt);
  json.set("prompt_ms", generated.timings.prefill_ms);
  json.set("prompt_per_second", per_second(prompt, generated.timings.prefill_ms));
  json.set("predicted_n", predicted);
  json.set("predicted_ms", predicted_ms);
  json.set("predicted_per_second", per_second(static_cast<int64_t>(gaps.size()), predicted_ms));
  Json draft;
  draft.set("tokens", generated.drafts.drafted);
  draft.set("accepted", generated.drafts.accepted);
  json.set("draft", std::move(draft));
  return json;
}

Json tool_call_json(const context::ToolCall& call, std::string_view id) {
  Json function;
  function.set("name", utf8_sanitized(call.name));
  function.set("arguments", utf8_sanitized(call.arguments));
  Json json;
  json.set("id", id);
  json.set("type", "function");
  json.set("function", std::move(function));
  return json;
}

Json chat_logprobs_json(const context::Tokenizer& tokenizer, std::span<const AnswerToken> tokens) {
  Json content(Json::Array{});
  for (const AnswerToken& token : tokens) {
    if (!token.logprob) continue;
    Json entry = logprob_json(tokenizer, token.logprob->chosen);
    Json top(Json::Array{});
    for (const engine::TokenLogprob& other : token.logprob->top) {
      top.push_back(logprob_json(tokenizer, other));
    }
    entry.set("top_logprobs", std::move(top));
    content.push_back(std::move(entry));
  }
  Json json;
  json.set("content", std::move(content));
  json.set("refusal", Json());
  return json;
}

Json token_ids_json(std::span<const AnswerToken> tokens) {
  Json ids(Json::Array{});
  for (const AnswerToken& token : tokens) ids.push_back(int64_t{token.id.value});
  return ids;
}

void set_reports(Json& json, const Backend& backend, const AnswerEnd& end,
                 std::optional<int64_t> max_tokens, const Json& window_report) {
  json.set("timings", timings_json(end.generated));
  json.set("reuse", engine::reuse_json(end.generated.reuse, end.prompt, backend.model.tokenizer()));
  json.set("context", window_report.is_null()
                          ? engine::context_json(backend.engine.window(), end.prompt, max_tokens)
                          : window_report);
}

int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string sse(const Json& json) {
  return "data: " + json.dump() + "\n\n";
}

void end_sse(HttpExchange& exchange, Json head, const Usage* usage) {
  if (usage != nullptr) {
    head.set("choices", Json(Json::Array{}));
    head.set("usage", usage_json(*usage));
    exchange.write(sse(head));
  }
  exchange.write(std::string(kSseDone));
  exchange.end_stream();
}

void fail_sse(HttpExchange& exchange, const ApiError& error) {
  exchange.write(sse(to_json(error)));
  exchange.end_stream();
}

}  // namespace quire::server
