#include "engine/answer.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace quire::engine {
namespace {

double ms_between(std::chrono::steady_clock::time_point from,
                  std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

}  // namespace

Answer::Answer(const Engine& engine, const GenerateOptions& options,
               std::function<bool(std::string_view)> on_text, TokenConstraint* constraint)
    : engine_(engine),
      options_(options),
      on_text_(std::move(on_text)),
      constraint_(constraint),
      sampler_(options.sampling),
      decoder_(engine.model().tokenizer(), context::SpecialText::kSkip,
               context::StreamDecoder::Start::kContinuation),
      stops_(options.stop) {}

void Answer::set_prompt(int64_t prompt_tokens, const Reuse& reuse) {
  out_.prompt_tokens = prompt_tokens;
  out_.reuse = reuse;
}

void Answer::set_prefilled() {
  last_ = Clock::now();
  out_.timings.prefill_ms = ms_between(start_, last_);
}

bool Answer::choose(std::span<const float> logits, std::span<const TokenId> before) {
  const TokenId token = sample(logits, before);
  out_.tokens.push_back(token);
  if (options_.logprobs) {
    out_.logprobs.push_back(
        {{token, logprob(logits, token)}, top_logprobs(logits, *options_.logprobs)});
  }
  const Clock::time_point now = Clock::now();
  if (out_.tokens.size() == 1) {
    out_.timings.ttft_ms = ms_between(start_, now);
  } else {
    out_.timings.gaps_ms.push_back(ms_between(last_, now));
  }
  last_ = now;
  return !is_last(token, before);
}

/// Log-probabilities are the model's own; only the choice is constrained.
TokenId Answer::sample(std::span<const float> logits, std::span<const TokenId> before) {
  const auto position = static_cast<int64_t>(before.size());
  if (constraint_ == nullptr) {
    return sampler_.sample(logits, before, position);
  }
  masked_.assign(logits.begin(), logits.end());
  constraint_->mask(masked_);
  const TokenId token = sampler_.sample(masked_, before, position);
  constraint_->accept(token);
  return token;
}

bool Answer::is_end(TokenId token) const {
  return engine_.model().is_end_of_generation(token) ||
         std::ranges::count(options_.end_tokens, token) > 0;
}

/// Shows what the token says.
bool Answer::is_last(TokenId token, std::span<const TokenId> before) {
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
  if (static_cast<int64_t>(before.size()) >= engine_.window().tokens)
    return ends(FinishReason::kLength);
  return false;
}

bool Answer::ends(FinishReason reason) {
  out_.finish = reason;
  return true;
}

bool Answer::show(std::string_view text) {
  out_.text += text;
  return !on_text_ || on_text_(text);
}

Generated Answer::take() {
  // What might have become a stop string did not; a character cut short stays in the tokens only.
  if (!out_.tokens.empty() && !stops_.matched()) show(stops_.finish());
  return std::move(out_);
}

Result<std::span<const float>> read_prompt(Engine& engine, Sequence& sequence,
                                           std::span<const TokenId> tokens,
                                           std::span<const int64_t> resume_points,
                                           const Engine::Progress& progress) {
  const int64_t known = sequence.length();
  const auto whole = static_cast<int64_t>(tokens.size());
  std::vector<int64_t> ends(resume_points.begin(), resume_points.end());
  ends.push_back(whole);
  std::span<const float> logits;
  for (const int64_t end : ends) {
    const int64_t begin = sequence.length();
    if (end <= begin) continue;
    const auto part = tokens.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    const auto report = [&](int64_t done, int64_t) {
      return !progress || progress(begin - known + done, whole - known);
    };
    QUIRE_TRY(logits, engine.append(sequence, part, report));
    // Others share all of a resume point; what follows the prompt is this sequence's own.
    engine.publish(sequence, end == whole ? PublishPoint::kGoesOn : PublishPoint::kEnds);
  }
  return logits;
}

}  // namespace quire::engine
