#include "engine/beam_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/tiny_models.h"

namespace quire::engine {
namespace {

using testing::HasSubstr;
using testing::Not;

std::vector<TokenId> some_tokens(size_t count) {
  std::vector<TokenId> tokens(count);
  for (size_t i = 0; i < count; ++i) tokens[i] = TokenId{static_cast<int32_t>(3 + i * 7 % 200)};
  return tokens;
}

BeamSearchOptions five_beams(int64_t max_tokens) {
  BeamSearchOptions options;
  options.rules.beams = 5;
  options.max_tokens = max_tokens;
  return options;
}

class BeamSearch : public testing::Test {
 protected:
  void SetUp() override { use_model("llama_tied"); }

  void use_model(const std::string& name) {
    engine_.reset();
    model_ = load_or_die(QUIRE_TEST_DATA "/tiny/" + name);
    engine_ = engine_or_die(*model_, {});
  }

  void use_engine(const EngineOptions& options) { engine_ = engine_or_die(*model_, options); }

  BeamSearchResult search(std::span<const TokenId> prompt, const BeamSearchOptions& options,
                          const BeamSearchEvents& events = {}) {
    auto result = beam_search(*engine_, engine_->create_sequence(), prompt, options, events);
    EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
    engine_->check();
    return result.ok() ? std::move(*result) : BeamSearchResult();
  }

  std::unique_ptr<Model> model_;
  std::unique_ptr<Engine> engine_;
};

std::vector<std::vector<TokenId>> tokens_of(const BeamSearchResult& result) {
  std::vector<std::vector<TokenId>> tokens;
  for (const BeamAnswer& answer : result.answers) tokens.push_back(answer.generated.tokens);
  return tokens;
}

std::vector<double> scores_of(const BeamSearchResult& result) {
  std::vector<double> scores;
  for (const BeamAnswer& answer : result.answers) scores.push_back(answer.score);
  return scores;
}

TEST_F(BeamSearch, OneBeamIsGreedy) {
  const auto prompt = some_tokens(20);
  GenerateOptions greedy;
  greedy.sampling.temperature = 0.0;
  greedy.max_tokens = 12;
  Sequence sequence = engine_->create_sequence();
  const Generated wanted = generate(*engine_, sequence, prompt, greedy, {}).value();
  BeamSearchOptions options{.rules = {.beams = 1, .early_stopping = EarlyStopping::kYes},
                            .max_tokens = 12};
  const BeamSearchResult got = search(prompt, options);
  ASSERT_EQ(got.answers.size(), 1u);
  EXPECT_EQ(got.answers[0].generated.tokens, wanted.tokens);
  EXPECT_EQ(got.answers[0].generated.text, wanted.text);
}

TEST_F(BeamSearch, GivesNDifferentAnswersBestFirst) {
  const BeamSearchResult got = search(some_tokens(20), five_beams(16));
  ASSERT_EQ(got.answers.size(), 5u);
  EXPECT_FALSE(got.cut_short);
  for (size_t i = 1; i < got.answers.size(); ++i) {
    EXPECT_GE(got.answers[i - 1].score, got.answers[i].score);
    EXPECT_NE(got.answers[i - 1].generated.tokens, got.answers[i].generated.tokens);
  }
  EXPECT_EQ(engine_->kv_stats().bytes_held, engine_->kv_stats().bytes_prefix);
}

/// Caches that hold the same numbers in different ways, or nothing.
TEST_F(BeamSearch, AnswersAlikeWhateverHoldsTheKeysAndValues) {
  for (const char* name : {"llama_tied", "gemma3"}) {
    use_model(name);
    const auto prompt = some_tokens(120);  // beams cross a page's border, and gemma's window
    for (const char* codec : {"f32", "f16", "q8", "q6/q4"}) {
      SCOPED_TRACE(std::string(name) + " " + codec);
      EngineOptions options{.context_tokens = 160, .kv = kv::codecs_from_name(codec).value()};
      use_engine(options);
      const BeamSearchResult wanted = search(prompt, five_beams(20));
      const auto expect_the_same = [&](const EngineOptions& other) {
        use_engine(other);
        const BeamSearchResult got = search(prompt, five_beams(20));
        EXPECT_EQ(tokens_of(got), tokens_of(wanted));
        EXPECT_EQ(scores_of(got), scores_of(wanted));
      };
      EngineOptions threads = options;
      threads.threads = 3;
      expect_the_same(threads);
      EngineOptions few_rows = options;
      few_rows.prefill_chunk = 2;  // fewer tokens a batch than there are beams
      expect_the_same(few_rows);
      EngineOptions fixed = options;
      fixed.cache = CacheKind::kStatic;
      fixed.static_sequences = 5;
      expect_the_same(fixed);
      EngineOptions none = options;
      none.cache = CacheKind::kNone;
      expect_the_same(none);
    }
  }
}

TEST_F(BeamSearch, AnswersAlikeUnderASlidingWindowWithAndWithoutACache) {
  const auto prompt = some_tokens(150);
  EngineOptions options;
  options.cache = parse_cache_policy("sliding:40+4").value();
  use_engine(options);
  const BeamSearchResult wanted = search(prompt, five_beams(40));
  options.cache = parse_cache_policy("none,sliding:40+4").value();
  use_engine(options);
  EXPECT_EQ(tokens_of(search(prompt, five_beams(40))), tokens_of(wanted));
  use_engine({});
  EXPECT_NE(tokens_of(search(prompt, five_beams(40))), tokens_of(wanted));
}

TEST_F(BeamSearch, ContinuesFromWhatASequenceHolds) {
  const auto prompt = some_tokens(150);
  const BeamSearchResult cold = search(prompt, five_beams(10));
  use_engine({});
  Sequence start = engine_->create_sequence();
  ASSERT_TRUE(engine_->append(start, std::span(prompt).first(100)).ok());
  const auto warm = beam_search(*engine_, std::move(start), prompt, five_beams(10), {});
  ASSERT_TRUE(warm.ok());
  EXPECT_EQ(cold.answers[0].generated.reuse.cached_tokens, 0);
  EXPECT_EQ(warm->answers[0].generated.reuse.cached_tokens, 100);
  EXPECT_EQ(tokens_of(*warm), tokens_of(cold));
  EXPECT_EQ(scores_of(*warm), scores_of(cold));
}

TEST_F(BeamSearch, FindsAPromptThatWasReadBefore) {
  const auto prompt = some_tokens(150);
  const BeamSearchResult cold = search(prompt, five_beams(10));
  const BeamSearchResult warm = search(prompt, five_beams(10));
  EXPECT_EQ(cold.answers[0].generated.reuse.cached_tokens, 0);
  EXPECT_EQ(warm.answers[0].generated.reuse.cached_tokens, 128);
  EXPECT_EQ(tokens_of(warm), tokens_of(cold));
  EXPECT_EQ(scores_of(warm), scores_of(cold));
}

TEST_F(BeamSearch, EndsAtAStopStringAndNeverShowsIt) {
  const auto prompt = some_tokens(20);
  BeamSearchOptions options = five_beams(24);
  options.rules.length_penalty = 0.0;  // short answers lose nothing
  const std::string whole = search(prompt, options).answers[0].generated.text;
  const auto letter =
      std::find_if(whole.begin() + 1, whole.end(), [](char c) { return c > ' ' && c <= '~'; });
  ASSERT_NE(letter, whole.end());
  options.stop = {std::string(1, *letter)};
  const BeamSearchResult got = search(prompt, options);
  bool stopped = false;
  for (const BeamAnswer& answer : got.answers) {
    EXPECT_THAT(answer.generated.text, Not(HasSubstr(options.stop[0])));
    if (answer.generated.stop != options.stop[0]) continue;
    EXPECT_EQ(answer.generated.finish, FinishReason::kStop);
    stopped = true;
  }
  EXPECT_TRUE(stopped);
}

TEST_F(BeamSearch, GivesLogprobsThatSumToTheAnswers) {
  BeamSearchOptions options = five_beams(8);
  options.rules.length_penalty = 2.0;
  options.logprobs = 3;
  for (const BeamAnswer& answer : search(some_tokens(20), options).answers) {
    const auto& tokens = answer.generated.tokens;
    ASSERT_EQ(answer.generated.logprobs.size(), tokens.size());
    double sum = 0.0;
    for (size_t i = 0; i < tokens.size(); ++i) {
      const GeneratedLogprob& logprob = answer.generated.logprobs[i];
      EXPECT_EQ(logprob.chosen.id, tokens[i]);
      ASSERT_EQ(logprob.top.size(), 3u);
      EXPECT_LE(logprob.chosen.logprob, logprob.top[0].logprob);
      sum += logprob.chosen.logprob;
    }
    EXPECT_NEAR(answer.logprob, sum, 1e-9);
    const auto length = static_cast<double>(tokens.size());
    EXPECT_NEAR(answer.score, sum / (length * length), 1e-9);
  }
}

TEST_F(BeamSearch, FillsTheWindowToItsLastToken) {
  use_engine({.context_tokens = 30});
  BeamSearchOptions options = five_beams(1);
  options.max_tokens.reset();
  options.rules.early_stopping = EarlyStopping::kNever;
  const BeamSearchResult got = search(some_tokens(15), options);
  const auto is_whole = [](const BeamAnswer& answer) {
    return answer.generated.finish == FinishReason::kLength &&
           answer.generated.tokens.size() == 16u;
  };
  // Token 31 is chosen from the logits of token 30, but has no place itself.
  EXPECT_TRUE(std::ranges::any_of(got.answers, is_whole));
}

TEST_F(BeamSearch, AnInterruptedSearchGivesTheBestSoFar) {
  const auto stop_at_three = [](int64_t done, int64_t) { return done < 3; };
  const BeamSearchResult got =
      search(some_tokens(20), five_beams(50), {.on_prefill = {}, .on_token = stop_at_three});
  ASSERT_EQ(got.answers.size(), 5u);
  EXPECT_FALSE(got.cut_short);
  for (const BeamAnswer& answer : got.answers) {
    if (answer.generated.finish == FinishReason::kStop) continue;
    EXPECT_EQ(answer.generated.finish, FinishReason::kInterrupted);
    EXPECT_EQ(answer.generated.tokens.size(), 3u);
  }
  EXPECT_EQ(engine_->kv_stats().bytes_held, engine_->kv_stats().bytes_prefix);
}

TEST_F(BeamSearch, AnInterruptedPrefillIsNoError) {
  use_engine({.prefill_chunk = 4});
  const BeamSearchResult got =
      search(some_tokens(20), five_beams(5),
             {.on_prefill = [](int64_t, int64_t) { return false; }, .on_token = {}});
  ASSERT_EQ(got.answers.size(), 1u);
  EXPECT_TRUE(got.answers[0].generated.tokens.empty());
  EXPECT_EQ(got.answers[0].generated.finish, FinishReason::kInterrupted);
  EXPECT_FALSE(got.cut_short);
}

TEST_F(BeamSearch, RefusesWhatCannotBeSearched) {
  const auto prompt = some_tokens(15);
  const auto refusal = [&](std::span<const TokenId> tokens, const BeamSearchOptions& options) {
    const auto refused = beam_search(*engine_, engine_->create_sequence(), tokens, options, {});
    EXPECT_FALSE(refused.ok());
    EXPECT_EQ(engine_->kv_stats().bytes_held, engine_->kv_stats().bytes_prefix);
    return refused.ok() ? Error{ErrorCode::kIo, ""} : refused.error();
  };
  EXPECT_EQ(refusal({}, five_beams(5)).code, ErrorCode::kUsage);
  EXPECT_EQ(refusal(prompt, five_beams(0)).code, ErrorCode::kUsage);
  BeamSearchOptions no_beams = five_beams(5);
  no_beams.rules.beams = 0;
  EXPECT_EQ(refusal(prompt, no_beams).code, ErrorCode::kUsage);
  use_engine({.context_tokens = 20});
  const Error full = refusal(prompt, five_beams(6));
  EXPECT_EQ(full.code, ErrorCode::kDoesNotFit);
  EXPECT_THAT(full.message, HasSubstr("5 are left"));
}

/// Enough for the prompt and one sequence of the wanted length, not for five.
TEST_F(BeamSearch, KeepsItsAnswersWhenMemoryForBeamsRunsOut) {
  const int64_t one = engine_->geometry().held_bytes(256);
  use_engine({.context_tokens = 256, .memory_bytes = one});
  const BeamSearchResult got = search(some_tokens(100), five_beams(150));
  ASSERT_TRUE(got.cut_short);
  EXPECT_EQ(got.cut_short->code, ErrorCode::kDoesNotFit);
  EXPECT_THAT(got.cut_short->message, HasSubstr("5 beams"));
  EXPECT_THAT(got.cut_short->message, HasSubstr("lower --beams"));
  ASSERT_EQ(got.answers.size(), 5u);
  EXPECT_FALSE(got.answers[0].generated.tokens.empty());
  EXPECT_EQ(engine_->kv_stats().bytes_held, engine_->kv_stats().bytes_prefix);
  // Nothing is lost for others, and what fits works.
  BeamSearchOptions two = five_beams(20);
  two.rules.beams = 2;
  EXPECT_FALSE(search(some_tokens(100), two).cut_short);
}

TEST_F(BeamSearch, AStaticCacheForNSequencesHoldsNBeamsToTheWindowsEnd) {
  for (const char* name : {"llama_tied", "gemma3"}) {
    use_model(name);
    for (const char* codec : {"f16", "q8"}) {
      SCOPED_TRACE(std::string(name) + " " + codec);
      EngineOptions options{.context_tokens = 200,
                            .cache = CacheKind::kStatic,
                            .static_sequences = 5,
                            .kv = kv::codecs_from_name(codec).value(),
                            .prefill_chunk = 16};
      use_engine(options);
      const int64_t set_aside = engine_->kv_stats().bytes_held;
      EXPECT_FALSE(search(some_tokens(70), five_beams(130)).cut_short);
      EXPECT_EQ(engine_->kv_stats().bytes_peak, set_aside);
    }
  }
}

}  // namespace
}  // namespace quire::engine
