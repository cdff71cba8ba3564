// reply_json.h: the parts that replies of several APIs share.
//
// Pure functions from what the engine says to JSON.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "context/tokenizer.h"
#include "engine/generate.h"
#include "formats/json.h"
#include "server/answer_sink.h"
#include "server/serving.h"

namespace quire::server {

/// {prompt_tokens, completion_tokens, total_tokens, prompt_tokens_details{cached_tokens}}.
formats::Json usage_json(const Usage& usage);
/// {cache_n, prompt_n, prompt_ms, predicted_n, predicted_ms, ...}.
formats::Json timings_json(const engine::Generated& generated);
/// {role..., tool_calls} of the chat API: {id, type, function{name, arguments}}.
formats::Json tool_call_json(const context::ToolCall& call, std::string_view id);
/// The chat API's `logprobs`: {content: [{token, logprob, bytes, top_logprobs}]}.
formats::Json chat_logprobs_json(const context::Tokenizer& tokenizer,
                                 std::span<const AnswerToken> tokens);
formats::Json token_ids_json(std::span<const AnswerToken> tokens);
/// `reuse`, `context` and `timings` of an answer, set in `json`. `window_report` is the planner's,
/// null if the request said nothing of its window.
void set_reports(formats::Json& json, const Backend& backend, const AnswerEnd& end,
                 std::optional<int64_t> max_tokens, const formats::Json& window_report);
/// Now, in seconds since 1970.
int64_t unix_seconds();
/// "data: {...}\n\n".
std::string sse(const formats::Json& json);

/// How streams of completions end: `usage`, unless null, in a chunk without choices that begins as
/// `head` does, and "[DONE]".
void end_sse(HttpExchange& exchange, formats::Json head, const Usage* usage);
/// In mid-stream: the error as an event.
void fail_sse(HttpExchange& exchange, const ApiError& error);

inline constexpr std::string_view kSseType = "text/event-stream";
inline constexpr std::string_view kSseHeartbeat = ": still here\n\n";
inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";

}  // namespace quire::server
