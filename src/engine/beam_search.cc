#include "engine/beam_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "context/stream_decoder.h"
#include "engine/answer.h"
#include "engine/stop_matcher.h"

namespace quire::engine {
namespace {

using Clock = std::chrono::steady_clock;

double ms_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

/// What a beam says, as far as stop strings need it.
class BeamText {
 public:
  BeamText(const context::Tokenizer& tokenizer, const std::vector<std::string>& stops)
      : decoder_(tokenizer, context::SpecialText::kSkip,
                 context::StreamDecoder::Start::kContinuation),
        stops_(stops) {}

  std::string push(TokenId token) { return stops_.push(decoder_.push(token)); }
  const std::optional<std::string>& matched() const { return stops_.matched(); }
  std::string finish() { return stops_.finish(); }

 private:
  context::StreamDecoder decoder_;
  StopMatcher stops_;
};

/// A token that some beam chose; its parent is the one before, kRoot for the first.
struct Node {
  int32_t parent;
  GeneratedLogprob logprob;
  double score;  // of the beam up to here
  FinishReason finish;
};
constexpr int32_t kRoot = -1;

/// An unfinished answer. Its last token is chosen but has not run yet.
struct Beam {
  Sequence sequence;
  int32_t node;
  double score;
  BeamText text;
};

/// A beam that goes on from one of those before, which still has its sequence.
struct Successor {
  int32_t parent;
  int32_t node;
  double score;
  BeamText text;
};

class BeamSearch {
 public:
  BeamSearch(Engine& engine, const BeamSearchOptions& options, const BeamSearchEvents& events)
      : engine_(engine),
        options_(options),
        events_(events),
        vocab_(static_cast<size_t>(engine.model().config().vocab)),
        is_end_(vocab_),
        found_(options.rules.beams) {
    for (size_t id = 0; id < vocab_; ++id) {
      const TokenId token{static_cast<int32_t>(id)};
      is_end_[id] = engine.model().is_end_of_generation(token) ||
                    std::ranges::count(options.end_tokens, token) > 0;
    }
    // No beam has more ends among its best tokens than there are, so N beams always find N tokens
    // to go on with.
    const auto ends = std::max<int64_t>(1, std::ranges::count(is_end_, true));
    num_candidates_ = static_cast<size_t>((1 + ends) * options.rules.beams);
  }

  Result<BeamSearchResult> run(Sequence start, std::span<const TokenId> prompt) {
    start_time_ = Clock::now();
    shared_.prompt_tokens = static_cast<int64_t>(prompt.size());
    const int64_t room = engine_.window().tokens - shared_.prompt_tokens + 1;
    max_tokens_ = options_.max_tokens.value_or(room);
    auto prefilled = read_prompt(start, prompt);
    if (!prefilled.ok() && prefilled.error().code == ErrorCode::kInterrupted) {
      shared_.finish = FinishReason::kInterrupted;
      return BeamSearchResult{{{.generated = std::move(shared_)}}, std::nullopt};
    }
    QUIRE_TRY_VOID(std::move(prefilled));
    beams_.push_back(
        {std::move(start), kRoot, 0.0, BeamText(engine_.model().tokenizer(), options_.stop)});
    for (;;) {
      if (is_done(choose_successors())) break;
      if (events_.on_token && !events_.on_token(generated_, max_tokens_)) {
        return result(std::nullopt);
      }
      if (auto stepped = run_step(); !stepped.ok()) {
        return result(with_context(std::move(stepped).error()));
      }
    }
    if (!found_.best_first().empty()) return result(std::nullopt);
    return Error{ErrorCode::kBadFile,
                 "the model gives no token a probability: its weights may be damaged"};
  }

 private:
  /// Leaves the logits of the last token in logits_.
  Result<void> read_prompt(Sequence& start, std::span<const TokenId> prompt) {
    shared_.reuse = engine_.resume(start, prompt);
    QUIRE_TRY(const std::span<const float> logits,
              engine::read_prompt(engine_, start, prompt, {}, events_.on_prefill));
    logits_.assign(logits.begin(), logits.end());
    last_time_ = Clock::now();
    shared_.timings.prefill_ms = ms_between(start_time_, last_time_);
    return {};
  }

  /// The beams of the next step; finished ones among the N best are noted as found.
  std::vector<Successor> choose_successors() {
    std::vector<double> scores;
    for (const Beam& beam : beams_) scores.push_back(beam.score);
    const auto num_beams = static_cast<size_t>(options_.rules.beams);
    const auto candidates = best_continuations(logits_, scores, num_candidates_);
    ++generated_;
    std::vector<Successor> next;
    for (size_t rank = 0; rank < candidates.size() && next.size() < num_beams; ++rank) {
      const Continuation& c = candidates[rank];
      BeamText text = beams_[static_cast<size_t>(c.beam)].text;
      const auto finish = finish_of(c.token, text);
      // A finished answer beyond the N best is no answer: it only made room for one that goes on.
      if (finish && rank >= num_beams) continue;
      const int32_t node = add_node(c, finish.value_or(FinishReason::kInterrupted));
      if (finish) {
        found_.add({node, normalised(c.score)});
      } else {
        next.push_back({c.beam, node, c.score, std::move(text)});
      }
    }
    note_time();
    return next;
  }

  /// Whether this token is a beam's last, and why; `text` becomes the text with it.
  std::optional<FinishReason> finish_of(TokenId token, BeamText& text) const {
    if (is_end_[static_cast<size_t>(token.value)]) return FinishReason::kStop;
    if (!options_.stop.empty()) {
      text.push(token);
      if (text.matched()) return FinishReason::kStop;
    }
    if (generated_ >= max_tokens_) return FinishReason::kLength;
    return std::nullopt;
  }

  int32_t add_node(const Continuation& c, FinishReason finish) {
    const Beam& beam = beams_[static_cast<size_t>(c.beam)];
    GeneratedLogprob logprob{{c.token, c.logprob}, {}};
    if (options_.logprobs.value_or(0) > 0) {
      logprob.top = top_logprobs(row(static_cast<size_t>(c.beam)), *options_.logprobs);
    }
    nodes_.push_back({beam.node, std::move(logprob), c.score, finish});
    return static_cast<int32_t>(nodes_.size()) - 1;
  }

  /// Makes the successors the beams, unless the search is over.
  bool is_done(std::vector<Successor> next) {
    const bool settled = next.empty() || is_settled(options_.rules, found_,
                                                    {.best_running = next.front().score,
                                                     .generated = generated_,
                                                     .max_tokens = max_tokens_});
    if (settled) {
      beams_.clear();
    } else {
      replace_beams(std::move(next));
    }
    return settled;
  }

  /// Pages of beams that nobody goes on from return before anything is written, so that only forks
  /// of the living cost a page.
  void replace_beams(std::vector<Successor> next) {
    std::vector<int32_t> children(beams_.size());
    for (const Successor& successor : next) ++children[static_cast<size_t>(successor.parent)];
    std::vector<std::optional<Sequence>> parents;
    for (size_t i = 0; i < beams_.size(); ++i) {
      parents.emplace_back();
      if (children[i] > 0) parents.back() = std::move(beams_[i].sequence);
    }
    beams_.clear();
    for (Successor& successor : next) {
      const auto parent = static_cast<size_t>(successor.parent);
      const bool is_last = --children[parent] == 0;
      beams_.push_back({is_last ? std::move(*parents[parent]) : engine_.fork(*parents[parent]),
                        successor.node, successor.score, std::move(successor.text)});
    }
  }

  /// Runs each beam's last token: one batch, or several if a batch holds fewer tokens.
  Result<void> run_step() {
    std::vector<StepItem> items;
    for (Beam& beam : beams_) {
      items.push_back({.sequence = &beam.sequence, .tokens = {&last_token(beam), 1}});
    }
    logits_.resize(beams_.size() * vocab_);
    const auto most = static_cast<size_t>(engine_.max_step_tokens());
    for (size_t done = 0; done < items.size(); done += most) {
      const size_t take = std::min(most, items.size() - done);
      QUIRE_TRY_VOID(engine_.step(std::span(items).subspan(done, take),
                                  std::span(logits_).subspan(done * vocab_, take * vocab_)));
    }
    return {};
  }

  const TokenId& last_token(const Beam& beam) const {
    return nodes_[static_cast<size_t>(beam.node)].logprob.chosen.id;
  }

  Error with_context(Error error) const {
    if (error.code != ErrorCode::kDoesNotFit) return error;
    error.message = fmt::format(
        "the search had to end after {} tokens on {} beams: {}; lower "
        "--beams or -n",
        generated_, beams_.size(), error.message);
    return error;
  }

  /// The best of what was found and, if the search did not come to its end, of what goes on.
  BeamSearchResult result(std::optional<Error> cut_short) {
    for (const Beam& beam : beams_) {
      if (cut_short) nodes_[static_cast<size_t>(beam.node)].finish = FinishReason::kLength;
      found_.add({beam.node, normalised(beam.score)});
    }
    beams_.clear();
    BeamSearchResult result{{}, std::move(cut_short)};
    for (const Hypothesis& hypothesis : found_.best_first()) {
      result.answers.push_back(answer(hypothesis));
    }
    return result;
  }

  BeamAnswer answer(const Hypothesis& hypothesis) const {
    const Node& last = nodes_[static_cast<size_t>(hypothesis.id)];
    BeamAnswer answer{shared_, last.score, hypothesis.score};
    Generated& out = answer.generated;
    out.finish = last.finish;
    for (int32_t id = hypothesis.id; id != kRoot; id = nodes_[static_cast<size_t>(id)].parent) {
      const Node& node = nodes_[static_cast<size_t>(id)];
      out.tokens.push_back(node.logprob.chosen.id);
      if (options_.logprobs) out.logprobs.push_back(node.logprob);
    }
    std::ranges::reverse(out.tokens);
    std::ranges::reverse(out.logprobs);
    write_text(out);
    return answer;
  }

  void write_text(Generated& out) const {
    BeamText text(engine_.model().tokenizer(), options_.stop);
    for (const TokenId token : out.tokens) {
      if (is_end_[static_cast<size_t>(token.value)]) {
        out.stop = engine_.model().tokenizer().piece(token);
      } else {
        out.text += text.push(token);
      }
    }
    if (text.matched()) {
      out.stop = *text.matched();
    } else {
      out.text += text.finish();
    }
  }

  double normalised(double score) const {
    return normalised_score(score, generated_, options_.rules.length_penalty);
  }

  std::span<const float> row(size_t beam) const {
    return std::span(logits_).subspan(beam * vocab_, vocab_);
  }

  void note_time() {
    const Clock::time_point now = Clock::now();
    if (generated_ == 1) {
      shared_.timings.ttft_ms = ms_between(start_time_, now);
    } else {
      shared_.timings.gaps_ms.push_back(ms_between(last_time_, now));
    }
    last_time_ = now;
  }

  Engine& engine_;
  const BeamSearchOptions& options_;
  const BeamSearchEvents& events_;
  const size_t vocab_;
  std::vector<bool> is_end_;  // [vocab]
  size_t num_candidates_ = 0;
  int64_t max_tokens_ = 0;
  int64_t generated_ = 0;  // by every unfinished beam
  std::vector<Node> nodes_;
  std::vector<Beam> beams_;    // best first
  std::vector<float> logits_;  // [beams, vocab]
  Hypotheses found_;
  Generated shared_;  // what all answers have in common
  Clock::time_point start_time_, last_time_;
};

}  // namespace

Result<BeamSearchResult> beam_search(Engine& engine, Sequence start,
                                     std::span<const TokenId> prompt,
                                     const BeamSearchOptions& options,
                                     const BeamSearchEvents& events) {
  if (prompt.empty()) {
    return Error{ErrorCode::kUsage, "the prompt has no tokens; give some text to continue"};
  }
  if (options.max_tokens && *options.max_tokens < 1) {
    return Error{ErrorCode::kUsage, "-n must be at least 1"};
  }
  QUIRE_TRY_VOID(check_beams(options.rules));
  QUIRE_TRY_VOID(
      check_fits(engine.window(), static_cast<int64_t>(prompt.size()), options.max_tokens));
  return BeamSearch(engine, options, events).run(std::move(start), prompt);
}

}  // namespace quire::engine
