// scheduler_testing.h: a scheduler on a tiny model whose every step is checked, and listeners that
// keep what they hear.
#pragma once
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/generate.h"
#include "engine/scheduler.h"
#include "engine/tiny_models.h"
#include "engine/token_constraint.h"

namespace quire::engine {

/// Says the tokens 30 to `last` in turn, again and again.
class Counting : public TokenConstraint {
 public:
  explicit Counting(int32_t last) : last_(last) {}
  void mask(std::span<float> logits) override {
    for (size_t i = 0; i < logits.size(); ++i) {
      if (i != static_cast<size_t>(next_)) logits[i] = -std::numeric_limits<float>::infinity();
    }
  }
  void accept(TokenId token) override {
    EXPECT_EQ(token.value, next_) << "a token that was not chosen";
    next_ = next_ == last_ ? 30 : next_ + 1;
  }
  [[nodiscard]] std::unique_ptr<TokenConstraint> fresh() const override {
    return std::make_unique<Counting>(last_);
  }

 private:
  int32_t last_;
  int32_t next_ = 30;
};

/// What one listener heard.
struct Story {
  std::vector<Reuse> starts;
  std::vector<std::pair<int64_t, int64_t>> prefill;
  std::vector<TokenId> tokens;
  std::string text;
  std::vector<GeneratedLogprob> logprobs;
  std::optional<Result<Generated>> done;

  [[nodiscard]] const Generated& answer() const { return done->value(); }
};

class StoryListener : public RequestListener {
 public:
  explicit StoryListener(Story& story) : story_(story) {}
  void on_start(const Reuse& reuse) override {
    expect_not_done();
    EXPECT_TRUE(story_.tokens.empty()) << "a start after the first token";
    story_.starts.push_back(reuse);
  }
  void on_prefill(int64_t done, int64_t total) override {
    expect_not_done();
    EXPECT_FALSE(story_.starts.empty());
    story_.prefill.emplace_back(done, total);
  }
  void on_token(const TokenEvent& event) override {
    expect_not_done();
    EXPECT_FALSE(story_.starts.empty());
    story_.tokens.push_back(event.token);
    story_.text += event.text;
    if (event.logprobs != nullptr) story_.logprobs.push_back(*event.logprobs);
  }
  void on_done(Result<Generated> answer) override {
    expect_not_done();
    story_.done = std::move(answer);
  }

 private:
  void expect_not_done() const { EXPECT_FALSE(story_.done) << "something after on_done()"; }

  Story& story_;
};

/// An engine with a scheduler. Aborts where a page is unaccounted for after any step.
class Bench {
 public:
  Bench(const Model& model, EngineOptions engine, SchedulerOptions scheduler = {})
      : engine_(engine_or_die(model, std::move(engine))),
        scheduler_(*engine_, std::move(scheduler)) {}

  Engine& engine() { return *engine_; }
  Scheduler& scheduler() { return scheduler_; }

  /// The story stays where it is.
  Story& submit(Request request) {
    EXPECT_TRUE(check_request(*engine_, request).ok());
    Story& story = *stories_.emplace_back(std::make_unique<Story>());
    scheduler_.submit(last_id(), std::move(request), std::make_unique<StoryListener>(story));
    return story;
  }
  /// Of the request submitted last.
  [[nodiscard]] RequestId last_id() const {
    return RequestId{static_cast<int64_t>(stories_.size()) - 1};
  }

  void step() {
    scheduler_.step();
    tell_ended();
  }
  void cancel(RequestId id) {
    scheduler_.cancel(id);
    tell_ended();
  }
  /// Steps until nothing is left.
  void run() {
    for (int i = 0; scheduler_.has_work(); ++i) {
      ASSERT_LT(i, 20000) << "a stand-still";
      step();
    }
    EXPECT_EQ(engine_->page_counts().held_by_sequences, 0);
  }

 private:
  void tell_ended() {
    for (EndedRequest& ended : scheduler_.take_ended()) {
      ended.listener->on_done(std::move(ended.answer));
    }
    engine_->check();
  }

  std::unique_ptr<Engine> engine_;
  Scheduler scheduler_;
  std::vector<std::unique_ptr<Story>> stories_;
};

/// The answer of generate() on an engine of its own, without guesses. Compare with expect_same().
inline Generated answer_alone(const Model& model, EngineOptions options, const Request& request) {
  options.memory_bytes = 0;
  options.prefix_reuse = PrefixReuse::kOff;
  const auto engine = engine_or_die(model, std::move(options));
  Sequence sequence = engine->create_sequence();
  GenerateOptions plain = request.options;
  plain.draft.rule = DraftRule::kNever;
  const std::unique_ptr<TokenConstraint> held =
      request.constraint ? request.constraint->fresh() : nullptr;
  return generate(*engine, sequence, request.prompt, plain, {}, held.get()).value();
}

inline bool operator==(const TokenLogprob& a, const TokenLogprob& b) {
  return a.id == b.id && a.logprob == b.logprob;
}
inline bool operator==(const GeneratedLogprob& a, const GeneratedLogprob& b) {
  return a.chosen == b.chosen && a.top == b.top;
}

/// The same tokens, text and, bit for bit, log-probabilities.
inline void expect_same(const Story& story, const Generated& expected) {
  ASSERT_TRUE(story.done.has_value());
  ASSERT_TRUE(story.done->ok()) << story.done->error().message;
  const Generated& got = story.answer();
  EXPECT_EQ(got.tokens, expected.tokens);
  EXPECT_EQ(got.text, expected.text);
  EXPECT_EQ(got.finish, expected.finish);
  EXPECT_EQ(got.stop, expected.stop);
  EXPECT_TRUE(got.logprobs == expected.logprobs);
  EXPECT_EQ(story.tokens, expected.tokens);
  EXPECT_EQ(story.text, expected.text);
  EXPECT_TRUE(story.logprobs == expected.logprobs);
  EXPECT_EQ(got.prompt_tokens, expected.prompt_tokens);
}

/// `count` tokens of the vocabulary's middle, different for each `first`.
inline std::vector<TokenId> prompt_of(int32_t first, int64_t count) {
  std::vector<TokenId> tokens;
  for (int64_t i = 0; i < count; ++i) {
    tokens.push_back({first + static_cast<int32_t>((i + i / 7) % 50)});
  }
  return tokens;
}

inline std::vector<TokenId> joined(std::vector<TokenId> a, std::span<const TokenId> b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// The options with few words to choose from, so that runs of them come again and guesses are right
/// now and then.
inline void keep_to_few_words(const Model& model, SamplingOptions& sampling) {
  for (int32_t id = 0; id < model.config().vocab && sampling.logit_bias.size() < 3; ++id) {
    if (!model.is_end_of_generation({id})) sampling.logit_bias.push_back({{id}, 1e4});
  }
}

/// With every log-probability that may be asked for, so that equal answers are equal logits.
inline Request request_of(std::vector<TokenId> prompt, int64_t max_tokens, uint64_t seed = 1) {
  Request request;
  request.prompt = std::move(prompt);
  request.options.sampling.seed = seed;
  request.options.max_tokens = max_tokens;
  request.options.logprobs = 20;
  return request;
}

}  // namespace quire::engine
