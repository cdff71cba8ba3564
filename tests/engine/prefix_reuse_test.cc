// Law 1 for the prefix tree: what is found there gives the bits of a cold run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/batch_generate.h"
#include "engine/generate.h"
#include "engine/tiny_models.h"
#include "kernels/same_bits.h"

namespace quire::engine {
namespace {

using kv::MissReason;
using Tokens = std::vector<TokenId>;

using kernels::same_bits;

Tokens joined(std::span<const TokenId> a, std::span<const TokenId> b) {
  Tokens both(a.begin(), a.end());
  both.insert(both.end(), b.begin(), b.end());
  return both;
}

class PrefixReuseLaw1 : public testing::TestWithParam<TinyModel> {
 protected:
  void SetUp() override {
    model_ = load_or_die(GetParam().path);
    text_ = read_golden(GetParam()).tokens;
  }

  std::span<const TokenId> text(size_t begin, size_t end) const {
    return std::span<const TokenId>(text_).subspan(begin, end - begin);
  }

  /// Logits of `count` last tokens of a prompt that an engine has never seen.
  std::vector<float> cold_logits(const Tokens& prompt, size_t count, EngineOptions options = {}) {
    options.prefix_reuse = PrefixReuse::kOff;
    const auto engine = engine_or_die(*model_, options);
    Sequence sequence = engine->create_sequence();
    const std::vector<float> all = all_logits(*engine, sequence, prompt, 64);
    const auto vocab = static_cast<size_t>(model_->config().vocab);
    return {all.end() - static_cast<std::ptrdiff_t>(count * vocab), all.end()};
  }

  /// Continues the prompt from what the engine knows of it; the logits of the rest.
  std::vector<float> hot_logits(Engine& engine, const Tokens& prompt, int64_t& cached) {
    Sequence sequence = engine.create_sequence();
    cached = engine.resume(sequence, prompt).cached_tokens;
    engine.check();
    const auto rest = std::span(prompt).subspan(static_cast<size_t>(cached));
    std::vector<float> logits = all_logits(engine, sequence, rest, 23);
    engine.publish(sequence, PublishPoint::kEnds);
    engine.check();
    return logits;
  }

  void publish(Engine& engine, std::span<const TokenId> tokens, size_t chunk = 64) {
    Sequence sequence = engine.create_sequence();
    all_logits(engine, sequence, tokens, chunk);
    engine.publish(sequence, PublishPoint::kEnds);
  }

  bool has_windows(const Engine& engine) const {
    return std::ranges::any_of(engine.geometry().groups(),
                               [](const kv::LayerGroup& group) { return group.is_window(); });
  }

  std::unique_ptr<Model> model_;
  Tokens text_;
};

TEST_P(PrefixReuseLaw1, APromptThatGoesOnGivesTheBitsOfAColdRun) {
  const auto engine = engine_or_die(*model_, {.threads = 2});
  publish(*engine, text(0, 101), 7);
  int64_t cached = 0;
  const Tokens prompt = joined(text(0, 101), text(20, 60));
  const std::vector<float> hot = hot_logits(*engine, prompt, cached);
  EXPECT_EQ(cached, 101);
  EXPECT_TRUE(same_bits(hot, cold_logits(prompt, 40)));
}

TEST_P(PrefixReuseLaw1, TheSamePromptAgainGivesTheBitsOfAColdRun) {
  const auto engine = engine_or_die(*model_, {});
  publish(*engine, text(0, 130));
  int64_t cached = 0;
  const Tokens prompt = joined(text(0, 130), {});
  const std::vector<float> hot = hot_logits(*engine, prompt, cached);
  EXPECT_EQ(cached, 129);
  EXPECT_TRUE(same_bits(hot, cold_logits(prompt, 1)));
}

TEST_P(PrefixReuseLaw1, ABranchFromTheMiddleGivesTheBitsOfAColdRun) {
  const auto engine = engine_or_die(*model_, {});
  // A conversation of three turns, each a point to go on from.
  for (const size_t end : {50u, 90u, 150u}) publish(*engine, text(0, end));
  for (const size_t at : {1u, 49u, 50u, 64u, 77u, 90u, 128u, 149u}) {
    int64_t cached = 0;
    const Tokens prompt = joined(text(0, at), text(100, 130));
    const std::vector<float> hot = hot_logits(*engine, prompt, cached);
    EXPECT_TRUE(same_bits(hot, cold_logits(prompt, prompt.size() - static_cast<size_t>(cached))))
        << at << ", " << cached << " cached";
    // Windows may lack pages between resume points; global layers never do.
    if (!has_windows(*engine)) EXPECT_GE(cached, static_cast<int64_t>(at));
    if (at == 50 || at == 90) EXPECT_GE(cached, static_cast<int64_t>(at));
  }
}

TEST_P(PrefixReuseLaw1, EveryCodecAndPolicyGivesTheBitsOfAColdRun) {
  using kv::Codec;
  CachePolicy sliding;
  sliding.sliding = SlidingWindow{.window_tokens = 40, .sink_tokens = 4};
  const std::vector<EngineOptions> all = {{.kv = {Codec::F32, Codec::F32}},
                                          {.kv = {Codec::Q8, Codec::Q8}},
                                          {.kv = {Codec::Q6, Codec::Q4}},
                                          {.cache = sliding},
                                          {.cache = sliding, .kv = {Codec::Q4, Codec::Q4}},
                                          {.cache = CacheKind::kStatic}};
  for (const EngineOptions& options : all) {
    const auto engine = engine_or_die(*model_, options);
    for (const size_t end : {50u, 90u, 150u}) publish(*engine, text(0, end), 31);
    for (const size_t at : {50u, 77u, 90u, 128u, 149u}) {
      int64_t cached = 0;
      const Tokens prompt = joined(text(0, at), text(100, 130));
      const std::vector<float> hot = hot_logits(*engine, prompt, cached);
      ASSERT_TRUE(
          same_bits(hot, cold_logits(prompt, prompt.size() - static_cast<size_t>(cached), options)))
          << kv::name(options.kv) << ", " << name(options.cache) << " at " << at << ", " << cached
          << " cached";
      // Encoded pages are shared as a whole.
      if (!kv::is_lossless(options.kv)) EXPECT_EQ(cached % kv::kPageTokens, 0);
      if (!has_windows(*engine)) EXPECT_GE(cached + kv::kPageTokens, static_cast<int64_t>(at));
    }
  }
}

TEST_P(PrefixReuseLaw1, EvictionChangesNoBit) {
  const auto roomy = engine_or_die(*model_, {});
  const int64_t one = roomy->geometry().peak_bytes(150, 64);
  // Room for one sequence and hardly anything beside it.
  const auto engine = engine_or_die(
      *model_, {.context_tokens = 150, .prefill_chunk = 64, .memory_bytes = one + one / 4});
  for (size_t shift = 0; shift < 6; ++shift) {
    int64_t cached = 0;
    const Tokens prompt = joined(text(0, 60), text(shift, 80 + shift));
    const std::vector<float> hot = hot_logits(*engine, prompt, cached);
    ASSERT_TRUE(same_bits(hot, cold_logits(prompt, prompt.size() - static_cast<size_t>(cached))))
        << shift << ", " << cached << " cached";
  }
  EXPECT_GT(engine->kv_stats().prefix_evicted, 0);
}

TEST_P(PrefixReuseLaw1, ABatchAnswersAsEachPromptAlone) {
  std::vector<BatchRequest> requests;
  for (size_t i = 0; i < 5; ++i) {
    GenerateOptions options;
    options.sampling.seed = i;
    options.max_tokens = static_cast<int64_t>(4 + 3 * i);
    requests.push_back({joined(text(0, 70), text(70 + i, 80 + i)), options});
  }
  const auto engine = engine_or_die(*model_, {.threads = 2});
  std::vector<std::optional<Generated>> answers(requests.size());
  generate_batch(*engine, requests, {.max_sequences = 3},
                 {.on_done = [&](size_t i, Result<Generated> answer) {
                   answers[i] = std::move(answer).value();
                 }});
  engine->check();
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto alone = engine_or_die(*model_, {.prefix_reuse = PrefixReuse::kOff});
    Sequence sequence = alone->create_sequence();
    const Generated expected =
        generate(*alone, sequence, requests[i].prompt, requests[i].options, {}).value();
    ASSERT_TRUE(answers[i].has_value());
    EXPECT_EQ(answers[i]->tokens, expected.tokens) << i;
    EXPECT_EQ(answers[i]->finish, expected.finish);
    // What all have in common is read once.
    EXPECT_EQ(answers[i]->reuse.cached_tokens >= 70, i > 0) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, PrefixReuseLaw1, testing::ValuesIn(tiny_models()),
                         [](const auto& test) { return test_name(test.param); });

class PrefixReuseInAnEngine : public testing::Test {
 protected:
  void SetUp() override {
    model_ = load_or_die(QUIRE_TEST_DATA "/tiny/llama_tied");
    engine_ = engine_or_die(*model_, {});
  }

  static GenerateOptions greedy(int64_t count) {
    GenerateOptions options;
    options.sampling.temperature = 0.0;
    options.max_tokens = count;
    return options;
  }

  static Tokens prompt_of(int32_t first, int64_t count) {
    Tokens tokens;
    for (int64_t i = 0; i < count; ++i) tokens.push_back({first + static_cast<int32_t>(i % 50)});
    return tokens;
  }

  std::unique_ptr<Model> model_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(PrefixReuseInAnEngine, AnotherSequenceFindsPromptAndAnswer) {
  const Tokens prompt = prompt_of(40, 90);
  Sequence first = engine_->create_sequence();
  const Generated answer = generate(*engine_, first, prompt, greedy(30), {}).value();
  ASSERT_EQ(answer.tokens.size(), 30u);

  Sequence second = engine_->create_sequence();
  const Tokens next = joined(joined(prompt, answer.tokens), prompt_of(10, 5));
  const Generated again = generate(*engine_, second, next, greedy(1), {}).value();
  // All but the last chosen token had run.
  EXPECT_EQ(again.reuse.cached_tokens, 90 + 29);
  ASSERT_TRUE(again.reuse.miss.has_value());
  EXPECT_EQ(again.reuse.miss->reason, MissReason::kCold);
  EXPECT_EQ(again.reuse.miss->cost_tokens, 6);
  engine_->check();
}

TEST_F(PrefixReuseInAnEngine, ACancelledPrefillLeavesItsFinishedPages) {
  const auto engine = engine_or_die(*model_, {.prefill_chunk = 32});
  const Tokens prompt = prompt_of(40, 200);
  {
    Sequence sequence = engine->create_sequence();
    const Generated stopped =
        generate(*engine, sequence, prompt, greedy(5),
                 {.on_prefill = [](int64_t done, int64_t) { return done < 96; }, .on_text = {}})
            .value();
    EXPECT_EQ(stopped.finish, FinishReason::kInterrupted);
  }
  Sequence sequence = engine->create_sequence();
  const Generated second = generate(*engine, sequence, prompt, greedy(5), {}).value();
  EXPECT_EQ(second.reuse.cached_tokens, 96);
}

TEST_F(PrefixReuseInAnEngine, SaysWhichTokenDiffers) {
  Sequence first = engine_->create_sequence();
  ASSERT_TRUE(generate(*engine_, first, prompt_of(40, 90), greedy(2), {}).ok());
  Tokens other = prompt_of(40, 90);
  other[33] = {7};
  Sequence second = engine_->create_sequence();
  const Generated got = generate(*engine_, second, other, greedy(2), {}).value();
  EXPECT_EQ(got.reuse.cached_tokens, 33);
  ASSERT_TRUE(got.reuse.miss.has_value());
  EXPECT_EQ(got.reuse.miss->reason, MissReason::kTokenDiffers);
  EXPECT_EQ(got.reuse.miss->token_index, 33);
  EXPECT_EQ(got.reuse.miss->expected, (TokenId{73}));
  EXPECT_EQ(got.reuse.miss->got, (TokenId{7}));
  EXPECT_EQ(got.reuse.miss->cost_tokens, 57);
}

TEST_F(PrefixReuseInAnEngine, CanBeTurnedOff) {
  const auto engine = engine_or_die(*model_, {.prefix_reuse = PrefixReuse::kOff});
  Sequence first = engine->create_sequence();
  ASSERT_TRUE(generate(*engine, first, prompt_of(40, 90), greedy(2), {}).ok());
  Sequence second = engine->create_sequence();
  EXPECT_EQ(generate(*engine, second, prompt_of(40, 90), greedy(2), {}).value().reuse.cached_tokens,
            0);
  EXPECT_EQ(engine->kv_stats().prefix_nodes, 0);
}

TEST_F(PrefixReuseInAnEngine, WithoutACacheNothingIsReused) {
  const auto engine = engine_or_die(*model_, {.cache = CacheKind::kNone});
  Sequence sequence = engine->create_sequence();
  for (int turn = 0; turn < 2; ++turn) {
    const Generated got = generate(*engine, sequence, prompt_of(40, 20), greedy(2), {}).value();
    EXPECT_EQ(got.reuse.cached_tokens, 0);
    ASSERT_TRUE(got.reuse.miss.has_value());
    EXPECT_EQ(got.reuse.miss->reason, MissReason::kCold);
    EXPECT_EQ(got.reuse.miss->cost_tokens, 20);
  }
}

TEST_F(PrefixReuseInAnEngine, ASingleAnswerCopiesNoPage) {
  Sequence sequence = engine_->create_sequence();
  ASSERT_TRUE(generate(*engine_, sequence, prompt_of(40, 90), greedy(20), {}).ok());
  EXPECT_EQ(engine_->kv_stats().pages_copied, 0);
  EXPECT_EQ(engine_->kv_stats().groups[0].pages_held, 2);
}

TEST_F(PrefixReuseInAnEngine, ABatchGoesOnWithFewerWhereMemoryIsShort) {
  const int64_t one = engine_->geometry().peak_bytes(200, 64);
  const auto engine =
      engine_or_die(*model_, {.context_tokens = 200, .prefill_chunk = 64, .memory_bytes = one * 2});
  std::vector<BatchRequest> requests;
  for (int32_t i = 0; i < 6; ++i) requests.push_back({prompt_of(20 + 30 * i, 120), greedy(60)});
  std::vector<Tokens> answers(requests.size());
  generate_batch(*engine, requests, {.max_sequences = 6},
                 {.on_done = [&](size_t i, Result<Generated> answer) {
                   answers[i] = std::move(answer).value().tokens;
                 }});
  engine->check();
  for (size_t i = 0; i < requests.size(); ++i) {
    Sequence sequence = engine_->create_sequence();
    EXPECT_EQ(
        answers[i],
        generate(*engine_, sequence, requests[i].prompt, requests[i].options, {}).value().tokens)
        << i;
  }
}

TEST_F(PrefixReuseInAnEngine, ABatchAnswersTheOthersWhenOneDoesNotFit) {
  const auto engine = engine_or_die(*model_, {.context_tokens = 100});
  const std::vector<BatchRequest> requests = {{prompt_of(40, 50), greedy(3)},
                                              {prompt_of(40, 150), greedy(3)},
                                              {prompt_of(41, 50), greedy(3)}};
  std::vector<std::string> ends(requests.size());
  generate_batch(*engine, requests, {}, {.on_done = [&](size_t i, Result<Generated> answer) {
    ends[i] = answer.ok() ? name(answer->finish) : answer.error().message;
  }});
  EXPECT_EQ(ends[0], "length");
  EXPECT_THAT(ends[1], testing::HasSubstr("does not fit"));
  EXPECT_EQ(ends[2], "length");
}

TEST_F(PrefixReuseInAnEngine, AStoppedBatchHandsOverWhatHasBegun) {
  std::vector<BatchRequest> requests;
  for (int32_t i = 0; i < 5; ++i) requests.push_back({prompt_of(20 + i, 30), greedy(40)});
  int steps = 0;
  std::vector<size_t> handed_over;
  generate_batch(*engine_, requests, {.max_sequences = 2},
                 {.on_done =
                      [&](size_t i, Result<Generated> answer) {
                        ASSERT_TRUE(answer.ok());
                        EXPECT_EQ(answer->finish, FinishReason::kInterrupted);
                        EXPECT_FALSE(answer->tokens.empty());
                        handed_over.push_back(i);
                      },
                  .on_progress = [&](int64_t) { return ++steps < 5; }});
  EXPECT_THAT(handed_over, testing::UnorderedElementsAre(0, 1));
  engine_->check();
}

}  // namespace
}  // namespace quire::engine
