#include "engine/generate.h"

#include <algorithm>

#include "engine/answer.h"

namespace quire::engine {
namespace {

Result<Generated> prefill_and_decode(Engine& engine, Sequence& sequence,
                                     std::span<const TokenId> prompt,
                                     const GenerateOptions& options, const GenerateEvents& events) {
  Answer answer(engine, options, events.on_text);
  answer.set_prompt(static_cast<int64_t>(prompt.size()), engine.resume(sequence, prompt));
  auto prefilled = read_prompt(engine, sequence, prompt, options.resume_points, events.on_prefill);
  if (!prefilled.ok() && prefilled.error().code == ErrorCode::kInterrupted) {
    answer.interrupt();
    return answer.take();
  }
  QUIRE_TRY(std::span<const float> logits, std::move(prefilled));
  answer.set_prefilled();
  while (answer.choose(logits, sequence)) {
    const TokenId token = answer.tokens().back();
    QUIRE_TRY(logits, engine.append(sequence, {&token, 1}));
  }
  return answer.take();
}

}  // namespace

std::string_view name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kInterrupted:
      return "interrupted";
  }
  return "";
}

Result<void> check_request(const Engine& engine, std::span<const TokenId> prompt,
                           const GenerateOptions& options) {
  if (prompt.empty()) {
    return Error{ErrorCode::kUsage, "the prompt has no tokens; give some text to continue"};
  }
  if (options.max_tokens && *options.max_tokens < 1) {
    return Error{ErrorCode::kUsage, "-n must be at least 1"};
  }
  QUIRE_TRY_VOID(check_sampling(options.sampling, engine.model().config().vocab));
  return check_fits(engine.window(), static_cast<int64_t>(prompt.size()), options.max_tokens);
}

Result<Generated> generate(Engine& engine, Sequence& sequence, std::span<const TokenId> prompt,
                           const GenerateOptions& options, const GenerateEvents& events) {
  QUIRE_TRY_VOID(check_request(engine, prompt, options));
  auto generated = prefill_and_decode(engine, sequence, prompt, options, events);
  engine.publish(sequence, PublishPoint::kEnds);
  return generated;
}

}  // namespace quire::engine
