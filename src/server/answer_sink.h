// answer_sink.h: how the answer to one request is told to whoever writes the reply.
//
// Each API has its own: whole or streamed, OpenAI's, Responses, Ollama's. Called on the server's
// I/O thread only, in the order below; nothing after finish() or fail().
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "context/answer_parser.h"
#include "engine/generate.h"
#include "engine/prompt.h"
#include "server/api_error.h"

namespace quire::server {

/// A token that was chosen.
struct AnswerToken {
  TokenId id;
  std::optional<engine::GeneratedLogprob> logprob;
};

/// What an answer went on with; often nothing but the token, as long as text is held back.
struct AnswerPiece {
  int32_t index = 0;  // of the choice, over all prompts
  context::AnswerEvents events;
  std::vector<AnswerToken> tokens;
};

struct PrefillProgress {
  int32_t index = 0;
  int64_t total = 0;
  int64_t cached = 0;
  int64_t processed = 0;  // cached ones included
  double time_ms = 0.0;   // since the request arrived
};

/// One choice, when it has ended.
struct AnswerEnd {
  int32_t index = 0;
  const engine::Prompt& prompt;
  std::string_view finish_reason;  // "stop", "length", "tool_calls"
  engine::Generated generated;
};

struct Usage {
  int64_t prompt_tokens = 0;  // each prompt once
  int64_t cached_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t reasoning_tokens = 0;  // of them
};

class AnswerSink {
 public:
  virtual ~AnswerSink() = default;
  /// The engine has accepted everything.
  virtual void begin() = 0;
  virtual void progress(const PrefillProgress& progress) = 0;
  virtual void piece(AnswerPiece piece) = 0;
  virtual void ended(AnswerEnd end) = 0;
  /// All choices have ended.
  virtual void finish(const Usage& usage) = 0;
  virtual void fail(const ApiError& error) = 0;
};

}  // namespace quire::server
