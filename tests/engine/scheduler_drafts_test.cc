// Guesses beside others: what they change is how many steps an answer takes, and no bit of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "engine/scheduler_testing.h"

namespace quire::engine {
namespace {

using Tokens = std::vector<TokenId>;
using testing::SizeIs;

/// What comes next stood there before.
Request counting(int32_t first, int64_t max_tokens, DraftRule rule) {
  Request request = request_of(prompt_of(first, 20), max_tokens);
  request.constraint = std::make_unique<Counting>(37);
  request.options.draft.rule = rule;
  return request;
}

class SchedulerDrafts : public testing::Test {
 protected:
  std::unique_ptr<Model> model_ = load_or_die(QUIRE_TEST_DATA "/tiny/llama_tied");
};

TEST_F(SchedulerDrafts, SaveStepsWhereTheyAreRight) {
  Bench bench(*model_, {});
  const Story& story = bench.submit(counting(50, 100, DraftRule::kAlways));
  int steps = 0;
  for (; bench.scheduler().has_work(); ++steps) bench.step();
  // The first round is news; after it eight guesses and one more come with each step.
  EXPECT_LT(steps, 14 + 100 / 9 + 2);
  EXPECT_THAT(story.tokens, SizeIs(100));
  expect_same(story, answer_alone(*model_, {}, counting(50, 100, DraftRule::kNever)));
  EXPECT_GT(story.answer().drafts.accepted, 70);
  EXPECT_EQ(bench.scheduler().counters().accepted_tokens, story.answer().drafts.accepted);
  EXPECT_EQ(bench.scheduler().counters().drafted_tokens, story.answer().drafts.drafted);
  EXPECT_EQ(bench.scheduler().counters().generated_tokens, 100);
}

TEST_F(SchedulerDrafts, AreNoneWhereTheRequestWantsNone) {
  Bench bench(*model_, {});
  Request none = counting(50, 60, DraftRule::kAlways);
  none.options.draft.most = 0;
  bench.submit(std::move(none));
  bench.submit(counting(70, 60, DraftRule::kNever));
  bench.run();
  EXPECT_EQ(bench.scheduler().counters().drafted_tokens, 0);
}

TEST_F(SchedulerDrafts, NeverGuessPastTheAnswersLengthOrTheWindowsEnd) {
  for (const int64_t most : {1, 2, 9, 10, 11, 40}) {
    Bench bench(*model_, {.context_tokens = 62});
    const Story& story = bench.submit(counting(50, most, DraftRule::kAlways));
    bench.run();
    EXPECT_EQ(story.answer().finish, FinishReason::kLength);
    EXPECT_THAT(story.tokens, SizeIs(static_cast<size_t>(most)));
  }
  Bench bench(*model_, {.context_tokens = 62});
  Request endless = counting(50, 1, DraftRule::kAlways);
  endless.options.max_tokens.reset();
  const Story& story = bench.submit(std::move(endless));
  bench.run();
  EXPECT_EQ(story.answer().finish, FinishReason::kLength);
  EXPECT_THAT(story.tokens, SizeIs(62 - 20 + 1));
}

TEST_F(SchedulerDrafts, StopWithinGuessesWhereTheAnswerEnds) {
  // Greedy, with an end token in the middle of a run that is guessed.
  const Request plain = counting(50, 60, DraftRule::kNever);
  for (const int32_t end : {30, 33, 37}) {
    Request request = counting(50, 60, DraftRule::kAlways);
    request.options.end_tokens = {{end}};
    Request again = counting(50, 60, DraftRule::kNever);
    again.options.end_tokens = {{end}};
    Bench bench(*model_, {});
    const Story& story = bench.submit(std::move(request));
    bench.run();
    expect_same(story, answer_alone(*model_, {}, again));
    EXPECT_EQ(story.answer().finish, FinishReason::kStop);
  }
  // A stop string of several tokens, which comes when guesses are right already.
  const Generated whole = answer_alone(*model_, {}, plain);
  ASSERT_GT(whole.text.size(), 30u);
  const std::string stop = whole.text.substr(whole.text.size() - 9, 7);
  Request stopped = counting(50, 60, DraftRule::kAlways);
  stopped.options.stop = {stop};
  Bench bench(*model_, {});
  const Story& story = bench.submit(std::move(stopped));
  bench.run();
  Request again = counting(50, 60, DraftRule::kNever);
  again.options.stop = {stop};
  expect_same(story, answer_alone(*model_, {}, again));
}

TEST_F(SchedulerDrafts, DoNotPassAPointThatAnotherRequestWaitsFor) {
  // The second shares all of the first one's prompt, and more: it waits for the first to read it.
  Bench bench(*model_, {.prefill_chunk = 40});
  Request first = counting(50, 40, DraftRule::kAlways);
  first.prompt = prompt_of(20, 150);
  Request second = counting(50, 40, DraftRule::kAlways);
  second.prompt = joined(prompt_of(20, 150), prompt_of(90, 30));
  bench.submit(std::move(first));
  const Story& follower = bench.submit(std::move(second));
  bench.run();
  EXPECT_EQ(follower.answer().reuse.cached_tokens, 150);
}

/// By which every step takes 5 ms, whatever it does: further rows cost nothing.
std::function<double()> even_clock() {
  return [calls = 0]() mutable { return 5.0 * ++calls; };
}

TEST_F(SchedulerDrafts, AreTriedWhereTheyPay) {
  Bench bench(*model_, {}, {.now_ms = even_clock()});
  const Story& story = bench.submit(counting(50, 100, DraftRule::kWhenItPays));
  bench.run();
  EXPECT_GT(story.answer().drafts.accepted, 60);
  expect_same(story, answer_alone(*model_, {}, counting(50, 100, DraftRule::kNever)));
}

TEST_F(SchedulerDrafts, WaitWhileAPromptIsRead) {
  Bench bench(*model_, {.prefill_chunk = 16}, {.now_ms = even_clock()});
  const Story& writer = bench.submit(counting(50, 150, DraftRule::kWhenItPays));
  for (int i = 0; i < 12; ++i) bench.step();
  const Story& reader = bench.submit(counting(80, 40, DraftRule::kWhenItPays));
  const Request unlike = counting(80, 40, DraftRule::kNever);
  Request large = request_of(prompt_of(120, 200), 1);
  const Story& read = bench.submit(std::move(large));
  bench.step();
  while (read.tokens.empty()) {
    const int64_t before = bench.scheduler().counters().drafted_tokens;
    bench.step();
    if (read.tokens.empty()) EXPECT_EQ(bench.scheduler().counters().drafted_tokens, before);
  }
  bench.run();
  EXPECT_GT(writer.answer().drafts.accepted, 50) << "before and after it";
  expect_same(reader, answer_alone(*model_, {}, unlike));
}

// --- twins: the same requests with and without guesses ---

struct Kind {
  std::string model;
  std::string cache;
  std::string kv;
};

std::ostream& operator<<(std::ostream& out, const Kind& kind) {
  return out << kind.model << " " << kind.cache << " " << kind.kv;
}

class SchedulerDraftTwins : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    model_ = load_or_die(QUIRE_TEST_DATA "/tiny/" + GetParam().model);
    options_ = {.context_tokens = 256, .static_sequences = 4, .prefill_chunk = 48};
    options_.cache = parse_cache_policy(GetParam().cache).value();
    options_.kv = kv::codecs_from_name(GetParam().kv).value();
  }

  /// Of a random kind, the same for the same seed.
  Request request(uint32_t seed, DraftRule rule) const {
    std::mt19937 random(seed);
    const auto uniform = [&](int low, int high) {
      return std::uniform_int_distribution(low, high)(random);
    };
    Tokens prompt = joined(prompt_of(20, 30 * uniform(0, 3)), prompt_of(90 + uniform(0, 9), 25));
    Request made = request_of(std::move(prompt), uniform(1, 60), seed);
    SamplingOptions& sampling = made.options.sampling;
    sampling.choice = uniform(0, 3);
    if (uniform(0, 3) == 0) sampling.temperature = 0.0;
    if (uniform(0, 2) > 0) keep_to_few_words(*model_, sampling);
    if (uniform(0, 2) == 0) sampling.repeat_penalty = 1.1;
    if (uniform(0, 2) == 0) sampling.frequency_penalty = 0.5;
    if (uniform(0, 4) == 0) made.constraint = std::make_unique<Counting>(37);
    if (uniform(0, 3) == 0) made.options.stop = {"a", "the"};
    made.tenant = uniform(0, 2) == 0 ? "b" : "a";
    made.options.draft.rule = rule;
    return made;
  }

  std::unique_ptr<Model> model_;
  EngineOptions options_;
};

TEST_P(SchedulerDraftTwins, GetTheSameTextsAndLogProbabilities) {
  constexpr uint32_t kRequests = 14;
  Bench guessing(*model_, options_, {.max_sequences = 5});
  Bench plain(*model_, options_, {.max_sequences = 5});
  std::vector<std::pair<Story*, Story*>> twins;
  for (uint32_t seed = 0; seed < kRequests; ++seed) {
    twins.emplace_back(&guessing.submit(request(seed, DraftRule::kAlways)),
                       &plain.submit(request(seed, DraftRule::kNever)));
    guessing.step();
    plain.step();
  }
  guessing.run();
  plain.run();
  for (uint32_t seed = 0; seed < kRequests; ++seed) {
    SCOPED_TRACE(seed);
    const auto& [guessed, expected] = twins[seed];
    expect_same(*guessed, expected->answer());
  }
  EXPECT_EQ(plain.scheduler().counters().drafted_tokens, 0);
  const SchedulerCounters& counters = guessing.scheduler().counters();
  if (!guessing.engine().can_guess()) {
    EXPECT_EQ(counters.drafted_tokens, 0);
    return;
  }
  EXPECT_GT(counters.accepted_tokens, 0);
  EXPECT_LT(counters.accepted_tokens, counters.drafted_tokens);
}

INSTANTIATE_TEST_SUITE_P(
    All, SchedulerDraftTwins,
    testing::Values(Kind{"llama_tied", "dynamic", "f16"}, Kind{"llama_tied", "dynamic", "q8/q4"},
                    Kind{"llama_tied", "static", "f16"}, Kind{"llama_tied", "none", "f16"},
                    Kind{"llama_tied", "sliding:40+4", "q8"}, Kind{"gemma3", "dynamic", "q6"},
                    Kind{"gemma3", "dynamic", "f16"}, Kind{"mixtral", "dynamic", "f16"}));

}  // namespace
}  // namespace quire::engine
