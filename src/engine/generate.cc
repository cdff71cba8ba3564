#include "engine/generate.h"

#include <algorithm>
#include <chrono>

#include "context/stream_decoder.h"
#include "engine/stop_matcher.h"

namespace quire::engine {
namespace {

using Clock = std::chrono::steady_clock;

double ms_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

/// Tokens at the start of `prompt` that the sequence already holds; never the last one, whose
/// logits are needed.
int64_t reusable_tokens(const Sequence& sequence, std::span<const TokenId> prompt) {
  const auto have = sequence.tokens();
  const auto differs = std::ranges::mismatch(have, prompt);
  const auto common = static_cast<int64_t>(differs.in1 - have.begin());
  return std::min(common, static_cast<int64_t>(prompt.size()) - 1);
}

class Generation {
 public:
  Generation(Engine& engine, Sequence& sequence, const GenerateOptions& options,
             const GenerateEvents& events)
      : engine_(engine),
        sequence_(sequence),
        options_(options),
        events_(events),
        sampler_(options.sampling),
        decoder_(engine.model().tokenizer(), context::SpecialText::kSkip,
                 context::StreamDecoder::Start::kContinuation),
        stops_(options.stop) {}

  Result<Generated> run(std::span<const TokenId> prompt) {
    const Clock::time_point start = Clock::now();
    out_.prompt_tokens = static_cast<int64_t>(prompt.size());
    const int64_t reused = reusable_tokens(sequence_, prompt);
    out_.cached_tokens = engine_.cache().recomputes() ? 0 : reused;
    QUIRE_TRY_VOID(engine_.truncate(sequence_, reused));
    auto prefilled =
        engine_.append(sequence_, prompt.subspan(static_cast<size_t>(reused)), events_.on_prefill);
    if (!prefilled.ok() && prefilled.error().code == ErrorCode::kInterrupted) {
      out_.finish = FinishReason::kInterrupted;
      return std::move(out_);
    }
    QUIRE_TRY(std::span<const float> logits, std::move(prefilled));
    Clock::time_point last = Clock::now();
    out_.timings.prefill_ms = ms_between(start, last);
    for (;;) {
      const TokenId token = choose(logits);
      const Clock::time_point now = Clock::now();
      if (out_.tokens.size() == 1) {
        out_.timings.ttft_ms = ms_between(start, now);
      } else {
        out_.timings.gaps_ms.push_back(ms_between(last, now));
      }
      last = now;
      if (ends_with(token)) return finished();
      QUIRE_TRY(logits, engine_.append(sequence_, {&token, 1}));
    }
  }

 private:
  TokenId choose(std::span<const float> logits) {
    const TokenId token = sampler_.sample(logits, sequence_.tokens(), sequence_.length());
    out_.tokens.push_back(token);
    if (options_.logprobs) {
      out_.logprobs.push_back(
          {{token, logprob(logits, token)}, top_logprobs(logits, *options_.logprobs)});
    }
    return token;
  }

  bool is_end(TokenId token) const {
    const Model& model = engine_.model();
    return model.is_end_of_generation(token) || std::ranges::count(options_.end_tokens, token) > 0;
  }

  /// Shows what the token says; whether it was the last.
  bool ends_with(TokenId token) {
    if (is_end(token)) {
      out_.stop = engine_.model().tokenizer().piece(token);
      return ends(FinishReason::kStop);
    }
    const bool go_on = show(stops_.push(decoder_.push(token)));
    if (stops_.matched()) {
      out_.stop = *stops_.matched();
      return ends(FinishReason::kStop);
    }
    if (!go_on) return ends(FinishReason::kInterrupted);
    const auto count = static_cast<int64_t>(out_.tokens.size());
    if (options_.max_tokens && count >= *options_.max_tokens) return ends(FinishReason::kLength);
    if (sequence_.length() >= engine_.window().tokens) return ends(FinishReason::kLength);
    return false;
  }

  bool ends(FinishReason reason) {
    out_.finish = reason;
    return true;
  }

  bool show(const std::string& text) {
    out_.text += text;
    return !events_.on_text || events_.on_text(text);
  }

  Generated finished() {
    // What might have become a stop string did not; a character cut short stays in the tokens only.
    if (!stops_.matched()) show(stops_.finish());
    return std::move(out_);
  }

  Engine& engine_;
  Sequence& sequence_;
  const GenerateOptions& options_;
  const GenerateEvents& events_;
  Sampler sampler_;
  context::StreamDecoder decoder_;
  StopMatcher stops_;
  Generated out_;
};

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

Result<Generated> generate(Engine& engine, Sequence& sequence, std::span<const TokenId> prompt,
                           const GenerateOptions& options, const GenerateEvents& events) {
  if (prompt.empty()) {
    return Error{ErrorCode::kUsage, "the prompt has no tokens; give some text to continue"};
  }
  if (options.max_tokens && *options.max_tokens < 1) {
    return Error{ErrorCode::kUsage, "-n must be at least 1"};
  }
  QUIRE_TRY_VOID(check_sampling(options.sampling, engine.model().config().vocab));
  QUIRE_TRY_VOID(
      check_fits(engine.window(), static_cast<int64_t>(prompt.size()), options.max_tokens));
  return Generation(engine, sequence, options, events).run(prompt);
}

}  // namespace quire::engine
