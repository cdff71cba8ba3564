// Guesses change no bit: with them an answer is that of plain decoding, greedy or sampled.
#include <gtest/gtest.h>

#include "engine/generate.h"
#include "engine/tiny_models.h"

namespace quire::engine {
namespace {

constexpr int64_t kTokens = 90;

/// A text that repeats itself, so that there is much to guess.
std::vector<TokenId> repetitive(const TinyModel& tiny) {
  const std::vector<TokenId> golden = read_golden(tiny).tokens;
  std::vector<TokenId> text;
  for (int round = 0; round < 4; ++round) {
    for (size_t i = 0; i < 24; ++i) text.push_back(golden[i % golden.size()]);
  }
  return text;
}

struct Outcome {
  Generated generated;
  std::vector<TokenId> held;
};

class Speculation : public testing::TestWithParam<TinyModel> {
 protected:
  void SetUp() override { model_ = load_or_die(GetParam().path); }

  Outcome generate_with(DraftRule rule, const EngineOptions& engine_options,
                        GenerateOptions options) {
    const auto engine = engine_or_die(*model_, engine_options);
    const auto prompt = repetitive(GetParam());
    options.draft.rule = rule;
    options.logprobs = 2;
    options.max_tokens =
        std::min<int64_t>(kTokens, engine->window().tokens - static_cast<int64_t>(prompt.size()));
    Sequence sequence = engine->create_sequence();
    Outcome outcome{quire::engine::generate(*engine, sequence, prompt, options, {}).value(), {}};
    outcome.held.assign(sequence.tokens().begin(), sequence.tokens().end());
    engine->check();
    return outcome;
  }

  /// Few words to choose from, so that runs of them come again.
  SamplingOptions few_words() const {
    SamplingOptions sampling;
    for (int32_t id = 0; id < model_->config().vocab && sampling.logit_bias.size() < 3; ++id) {
      if (!model_->is_end_of_generation(TokenId{id})) sampling.logit_bias.push_back({{id}, 1e4});
    }
    return sampling;
  }

  void expect_equal(const EngineOptions& engine_options, const GenerateOptions& options) {
    const Outcome plain = generate_with(DraftRule::kNever, engine_options, options);
    const Outcome guessed = generate_with(DraftRule::kAlways, engine_options, options);
    EXPECT_EQ(guessed.generated.tokens, plain.generated.tokens);
    EXPECT_EQ(guessed.generated.text, plain.generated.text);
    EXPECT_EQ(guessed.generated.finish, plain.generated.finish);
    EXPECT_EQ(guessed.held, plain.held);
    ASSERT_EQ(guessed.generated.logprobs.size(), plain.generated.logprobs.size());
    for (size_t i = 0; i < plain.generated.logprobs.size(); ++i) {
      EXPECT_EQ(guessed.generated.logprobs[i].chosen.logprob,
                plain.generated.logprobs[i].chosen.logprob)
          << i;
    }
    drafted_ += guessed.generated.drafts.drafted;
    accepted_ += guessed.generated.drafts.accepted;
    EXPECT_EQ(plain.generated.drafts.drafted, 0);
  }

  std::unique_ptr<Model> model_;
  int64_t drafted_ = 0;
  int64_t accepted_ = 0;
};

TEST_P(Speculation, GivesTheTextOfPlainDecoding) {
  GenerateOptions greedy;
  greedy.sampling.temperature = 0.0;
  GenerateOptions sampled;
  sampled.sampling = few_words();
  sampled.sampling.temperature = 0.7;
  sampled.sampling.repeat_penalty = 1.1;
  sampled.sampling.seed = 5;
  for (const GenerateOptions& options : {greedy, sampled}) expect_equal({}, options);
  EXPECT_GT(drafted_, 0) << "a text that repeats itself gives something to guess";
}

TEST_P(Speculation, SealsNothingThatIsTakenBack) {
  GenerateOptions surprising;
  surprising.sampling = few_words();
  surprising.sampling.top_p = 1.0;
  surprising.sampling.min_p = 0.0;
  surprising.sampling.temperature = 100.0;  // all of the few alike
  expect_equal({.kv = {kv::Codec::Q8, kv::Codec::Q4}}, surprising);
  expect_equal({.cache = parse_cache_policy("sliding:20+3").value()}, surprising);
  EXPECT_GT(accepted_, 0);
  EXPECT_LT(accepted_, drafted_) << "a guess that is wrong must have been taken back";
}

INSTANTIATE_TEST_SUITE_P(All, Speculation, testing::ValuesIn(tiny_models()),
                         [](const auto& test) { return test_name(test.param); });

TEST(Speculation, IsOffWhereNothingIsKeptOrPagesWaitOnDisk) {
  const auto model = load_or_die(QUIRE_TEST_DATA "/tiny/llama_tied");
  EXPECT_FALSE(engine_or_die(*model, {.cache = parse_cache_policy("none").value()})->can_guess());
  EXPECT_TRUE(engine_or_die(*model, {})->can_guess());
}

}  // namespace
}  // namespace quire::engine
