// The scheduler on tiny models: what each request gets, and what it costs the others.
#include "engine/scheduler.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/scheduler_testing.h"

namespace quire::engine {
namespace {

using Tokens = std::vector<TokenId>;
using testing::Each;
using testing::Ge;
using testing::SizeIs;

std::string tiny(const std::string& name) {
  return QUIRE_TEST_DATA "/tiny/" + name;
}

class SchedulerTest : public testing::Test {
 protected:
  /// Requests that never say that they are done.
  Request endless_of(Tokens prompt, int64_t max_tokens, uint64_t seed = 1) const {
    Request request = request_of(std::move(prompt), max_tokens, seed);
    for (int32_t id = 0; id < model_->config().vocab; ++id) {
      if (!model_->is_end_of_generation({id})) continue;
      request.options.sampling.logit_bias.emplace_back(TokenId{id}, -1e6);
    }
    // These tests count steps. Guesses: scheduler_drafts_test.cc.
    request.options.draft.rule = DraftRule::kNever;
    return request;
  }

  std::unique_ptr<Model> model_ = load_or_die(tiny("llama_tied"));
};

TEST_F(SchedulerTest, EachOfManyGetsTheAnswerItWouldGetAlone) {
  Bench bench(*model_, {.threads = 2, .prefill_chunk = 32}, {.max_sequences = 4});
  std::vector<Story*> stories;
  for (int32_t i = 0; i < 9; ++i) {
    stories.push_back(&bench.submit(request_of(prompt_of(20 + i, 10 + 23 * i), 5 + 3 * i, i)));
  }
  bench.run();
  for (int32_t i = 0; i < 9; ++i) {
    SCOPED_TRACE(i);
    const Request again = request_of(prompt_of(20 + i, 10 + 23 * i), 5 + 3 * i, i);
    expect_same(*stories[static_cast<size_t>(i)], answer_alone(*model_, {}, again));
  }
}

TEST_F(SchedulerTest, RequestsJoinAndLeaveAtEveryStep) {
  Bench bench(*model_, {});
  const Story& first = bench.submit(endless_of(prompt_of(20, 30), 20));
  for (int i = 0; i < 5; ++i) bench.step();
  ASSERT_THAT(first.tokens, SizeIs(5));
  const Story& second = bench.submit(endless_of(prompt_of(40, 3), 4));
  for (int i = 0; i < 5; ++i) bench.step();
  EXPECT_THAT(first.tokens, SizeIs(10));
  ASSERT_TRUE(second.done.has_value());
  EXPECT_THAT(second.tokens, SizeIs(4));
  EXPECT_EQ(bench.scheduler().num_running(), 1);
  bench.run();
  EXPECT_THAT(first.tokens, SizeIs(20));
}

TEST_F(SchedulerTest, ReportsThePromptAsItIsRead) {
  Bench bench(*model_, {.prefill_chunk = 64});
  const Story& story = bench.submit(endless_of(prompt_of(20, 150), 2));
  bench.run();
  const std::vector<std::pair<int64_t, int64_t>> expected = {{64, 150}, {128, 150}, {150, 150}};
  EXPECT_EQ(story.prefill, expected);
  ASSERT_THAT(story.starts, SizeIs(1));
  EXPECT_EQ(story.starts[0].cached_tokens, 0);
  EXPECT_THAT(story.tokens, SizeIs(2));
}

/// A machine whose every look at the clock finds it `ms` later: the answers of a step take that
/// long, and so does each layer of a prompt's pass.
std::function<double()> clock_of(double ms) {
  return [now = 0.0, ms]() mutable { return now += ms; };
}

TEST_F(SchedulerTest, APromptIsReadByLayersBesideTheAnswersOfOthers) {
  // Time for two layers: the answers' own, and as much again.
  Bench bench(*model_, {}, {.prefill_slowdown = 3.0, .now_ms = clock_of(1.0)});
  const Story& writer = bench.submit(endless_of(prompt_of(20, 10), 200));
  for (int i = 0; i < 20; ++i) bench.step();
  const Story& reader = bench.submit(endless_of(prompt_of(50, 440), 1));
  const size_t before = writer.tokens.size();
  int steps = 0;
  while (reader.tokens.empty()) {
    bench.step();
    bench.engine().check();
    ++steps;
    ASSERT_THAT(writer.tokens, SizeIs(before + static_cast<size_t>(steps)))
        << "a step without the other's token";
  }
  ASSERT_GT(reader.prefill.size(), 2u) << "the prompt is not read in one piece";
  EXPECT_GE(steps, static_cast<int>(reader.prefill.size()) * model_->config().num_layers / 3);
}

TEST_F(SchedulerTest, APromptGoesOnByALayerAStepHoweverLongThatTakes) {
  Bench bench(*model_, {}, {.prefill_slowdown = 1.0, .now_ms = clock_of(1.0)});
  bench.submit(endless_of(prompt_of(20, 10), 400));
  for (int i = 0; i < 5; ++i) bench.step();
  const Story& reader = bench.submit(endless_of(prompt_of(50, 100), 1));
  int steps = 0;
  while (reader.tokens.empty() && steps < 300) bench.step(), ++steps;
  EXPECT_FALSE(reader.tokens.empty());
  const auto fewest = reader.prefill.end()[-2].first - reader.prefill.end()[-3].first;
  EXPECT_EQ(fewest, 8) << "where a layer takes too long, fewer rows go through it";
}

TEST_F(SchedulerTest, APassThatBeganBesideAnswersEndsWhenTheyDo) {
  Bench bench(*model_, {}, {.prefill_slowdown = 1.0, .now_ms = clock_of(1.0)});
  const Story& writer = bench.submit(endless_of(prompt_of(20, 10), 8));
  for (int i = 0; i < 5; ++i) bench.step();
  const Story& reader = bench.submit(endless_of(prompt_of(50, 100), 3));
  bench.run();
  EXPECT_THAT(writer.tokens, SizeIs(8));
  EXPECT_THAT(reader.tokens, SizeIs(3));
}

TEST_F(SchedulerTest, ACancelledPromptLeavesInTheMiddleOfItsPass) {
  Bench bench(*model_, {}, {.prefill_slowdown = 1.0, .now_ms = clock_of(1.0)});
  const Story& writer = bench.submit(endless_of(prompt_of(20, 10), 60));
  for (int i = 0; i < 5; ++i) bench.step();
  const Story& reader = bench.submit(endless_of(prompt_of(50, 100), 3));
  bench.step();
  bench.step();
  bench.cancel(bench.last_id());
  bench.engine().check();
  bench.run();
  EXPECT_THAT(reader.tokens, SizeIs(0));
  EXPECT_TRUE(reader.done.has_value());
  EXPECT_THAT(writer.tokens, SizeIs(60));
}

TEST_F(SchedulerTest, APromptAloneIsReadInTheLargestChunks) {
  Bench bench(*model_, {.prefill_chunk = 200});
  const Story& story = bench.submit(endless_of(prompt_of(20, 450), 1));
  bench.run();
  EXPECT_THAT(story.prefill, SizeIs(3));
}

// --- memory ---

TEST_F(SchedulerTest, WherePagesRunOutTheYoungestWaitsAndGoesOnBitForBit) {
  const auto roomy = engine_or_die(*model_, {});
  const int64_t one = roomy->geometry().peak_bytes(300, 64);
  Bench bench(*model_, {.context_tokens = 300, .prefill_chunk = 64, .memory_bytes = 2 * one},
              {.max_sequences = 6});
  std::vector<Story*> stories;
  const auto request = [&](int32_t i) { return endless_of(prompt_of(20 + 31 * i, 60), 200, i); };
  for (int32_t i = 0; i < 6; ++i) stories.push_back(&bench.submit(request(i)));
  // The oldest gets a token at every step, whatever becomes of the others.
  for (size_t steps = 1; !stories[0]->done; ++steps) {
    bench.step();
    EXPECT_LE(bench.engine().kv_stats().bytes_held, 2 * one);
    if (steps > 8) EXPECT_GE(stories[0]->tokens.size() + 8, steps);
  }
  bench.run();
  EXPECT_GT(bench.scheduler().counters().preemptions, 0);
  EXPECT_EQ(bench.scheduler().counters().prefix_queries, 6 * 60);
  EXPECT_EQ(bench.scheduler().counters().prefix_hits, 0);
  EXPECT_EQ(bench.scheduler().counters().generated_tokens, 6 * 200);
  for (int32_t i = 0; i < 6; ++i) {
    SCOPED_TRACE(i);
    expect_same(*stories[static_cast<size_t>(i)], answer_alone(*model_, {}, request(i)));
    EXPECT_EQ(stories[static_cast<size_t>(i)]->starts.size(), 1u);
  }
}

TEST_F(SchedulerTest, StartsOnlyWhatHasRoomForItsPromptAndOnePage) {
  const auto roomy = engine_or_die(*model_, {});
  const int64_t page = roomy->geometry().held_bytes(64);
  // Ten pages: three prompts of two pages with one to grow into, and one page left over.
  Bench bench(*model_, {.context_tokens = 512, .memory_bytes = 10 * page}, {.max_sequences = 8});
  for (int32_t i = 0; i < 5; ++i) bench.submit(endless_of(prompt_of(20 + 31 * i, 120), 20, i));
  bench.step();
  EXPECT_EQ(bench.scheduler().num_running(), 3);
  EXPECT_EQ(bench.scheduler().num_waiting(), 2);
  bench.run();
  EXPECT_EQ(bench.scheduler().counters().preemptions, 0);
  EXPECT_EQ(bench.scheduler().counters().ended_length, 5);
}

TEST_F(SchedulerTest, ALargeRequestIsNotPassedByForEver) {
  const auto roomy = engine_or_die(*model_, {});
  const int64_t page = roomy->geometry().held_bytes(64);
  Bench bench(*model_, {.context_tokens = 512, .memory_bytes = 8 * page}, {.max_sequences = 8});
  bench.submit(endless_of(prompt_of(20, 30), 60));
  bench.step();
  const Story& large = bench.submit(endless_of(prompt_of(60, 440), 5));
  std::vector<Story*> small;
  for (int32_t i = 0; i < 20; ++i) {
    small.push_back(&bench.submit(endless_of(prompt_of(100 + i, 10), 20, i)));
    bench.step();
    for (const Story* story : small) {
      if (large.tokens.empty()) EXPECT_TRUE(story->starts.empty());
    }
  }
  bench.run();
  EXPECT_TRUE(large.done->ok());
}

// --- shared beginnings ---

int64_t total_read(const std::vector<Story*>& stories) {
  int64_t sum = 0;
  for (const Story* story : stories) {
    sum += story->answer().prompt_tokens - story->answer().reuse.cached_tokens;
  }
  return sum;
}

TEST_F(SchedulerTest, TwoInFlightReadACommonBeginningOnce) {
  Bench bench(*model_, {.prefill_chunk = 48});
  std::vector<Story*> stories;
  const auto request = [&](int32_t i) {
    return endless_of(joined(prompt_of(20, 200), prompt_of(90 + i, 30)), 10, i);
  };
  for (int32_t i = 0; i < 4; ++i) stories.push_back(&bench.submit(request(i)));
  bench.run();
  // A whole page more or less is not worth waiting for.
  EXPECT_EQ(total_read(stories), 230 + 3 * 30);
  for (int32_t i = 0; i < 4; ++i) {
    expect_same(*stories[static_cast<size_t>(i)], answer_alone(*model_, {}, request(i)));
  }
  EXPECT_EQ(bench.scheduler().counters().prefix_queries, 4 * 230);
  EXPECT_EQ(bench.scheduler().counters().prefix_hits, 3 * 200);
}

TEST_F(SchedulerTest, ChoicesOfOnePromptReadItOnce) {
  Bench bench(*model_, {.prefill_chunk = 64});
  std::vector<Story*> stories;
  for (int32_t choice = 0; choice < 4; ++choice) {
    Request request = endless_of(prompt_of(20, 150), 8);
    request.options.sampling.choice = choice;
    stories.push_back(&bench.submit(std::move(request)));
  }
  bench.run();
  EXPECT_EQ(total_read(stories), 150 + 3 * 1);
  EXPECT_NE(stories[0]->tokens, stories[1]->tokens);
}

TEST_F(SchedulerTest, OneThatComesWhileItsBeginningIsReadTakesWhatIsThere) {
  Bench bench(*model_, {.prefill_chunk = 64});
  const Request first = endless_of(prompt_of(20, 300), 4);
  const Request second = endless_of(joined(prompt_of(20, 140), prompt_of(99, 40)), 4);
  std::vector<Story*> stories = {&bench.submit(endless_of(prompt_of(20, 300), 4))};
  for (int i = 0; i < 3; ++i) bench.step();
  ASSERT_EQ(stories[0]->prefill.back().first, 192);
  stories.push_back(&bench.submit(endless_of(second.prompt, 4)));
  bench.run();
  EXPECT_EQ(stories[1]->starts[0].cached_tokens, 140);
  expect_same(*stories[0], answer_alone(*model_, {}, first));
  expect_same(*stories[1], answer_alone(*model_, {}, second));
}

TEST_F(SchedulerTest, OneThatFollowsAnotherGoesOnWhenThatIsCancelled) {
  Bench bench(*model_, {.prefill_chunk = 32});
  const Request request = endless_of(prompt_of(20, 200), 4);
  bench.submit(endless_of(prompt_of(20, 200), 4));
  const RequestId first = bench.last_id();
  const Story& second = bench.submit(endless_of(prompt_of(20, 200), 4));
  for (int i = 0; i < 3; ++i) bench.step();
  EXPECT_TRUE(second.starts.empty());
  bench.cancel(first);
  bench.run();
  EXPECT_EQ(second.starts[0].cached_tokens, 96);
  expect_same(second, answer_alone(*model_, {}, request));
}

TEST_F(SchedulerTest, TenantsAndSaltsNeverSeeEachOthersPages) {
  Bench bench(*model_, {});
  const auto request = [&](std::string tenant, std::string salt, PrefixReuse reuse) {
    Request one = endless_of(prompt_of(20, 150), 2);
    one.tenant = std::move(tenant);
    one.salt = std::move(salt);
    one.reuse = reuse;
    return one;
  };
  const auto cached = [&](Request one) {
    const Story& story = bench.submit(std::move(one));
    bench.run();
    return story.answer().reuse;
  };
  EXPECT_EQ(cached(request("a", "", PrefixReuse::kOn)).cached_tokens, 0);
  const Reuse others = cached(request("b", "", PrefixReuse::kOn));
  EXPECT_EQ(others.cached_tokens, 0);
  EXPECT_EQ(others.miss->reason, kv::MissReason::kCold);
  EXPECT_EQ(cached(request("a", "salt", PrefixReuse::kOn)).cached_tokens, 0);
  EXPECT_EQ(cached(request("a", "", PrefixReuse::kOff)).cached_tokens, 0);
  EXPECT_EQ(cached(request("a", "", PrefixReuse::kOn)).cached_tokens, 149);
  EXPECT_EQ(cached(request("b", "", PrefixReuse::kOn)).cached_tokens, 149);
  EXPECT_EQ(cached(request("a", "salt", PrefixReuse::kOn)).cached_tokens, 149);
  EXPECT_EQ(cached(request("c", "", PrefixReuse::kOff)).cached_tokens, 0);
  EXPECT_EQ(cached(request("c", "", PrefixReuse::kOn)).cached_tokens, 0) << "left pages behind";
}

// --- tenants ---

TEST_F(SchedulerTest, ATenantThatHoldsAllSlotsGivesOneToAnother) {
  Bench bench(*model_, {}, {.max_sequences = 4});
  std::vector<Story*> greedy;
  const auto request = [&](int32_t i) { return endless_of(prompt_of(20 + 31 * i, 70), 60, i); };
  for (int32_t i = 0; i < 6; ++i) {
    Request one = request(i);
    one.tenant = "greedy";
    greedy.push_back(&bench.submit(std::move(one)));
  }
  for (int i = 0; i < 3; ++i) bench.step();
  Request modest = endless_of(prompt_of(40, 20), 5);
  modest.tenant = "modest";
  const Story& served = bench.submit(std::move(modest));
  for (int i = 0; i < 10; ++i) bench.step();
  ASSERT_TRUE(served.done.has_value()) << "did not wait for a slot";
  EXPECT_EQ(bench.scheduler().counters().preemptions, 1);
  bench.run();
  for (int32_t i = 0; i < 6; ++i) {
    expect_same(*greedy[static_cast<size_t>(i)], answer_alone(*model_, {}, request(i)));
  }
  // Its pages were still there when it went on.
  EXPECT_EQ(bench.scheduler().counters().preemptions, 1);
}

TEST_F(SchedulerTest, AShortPromptOfAnotherTenantDoesNotWaitForALongOne) {
  Bench bench(*model_, {.prefill_chunk = 32});
  Request large = endless_of(prompt_of(20, 440), 2);
  large.tenant = "greedy";
  Request small = endless_of(prompt_of(70, 40), 2);
  small.tenant = "modest";
  const Story& slow = bench.submit(std::move(large));
  bench.step();
  const Story& quick = bench.submit(std::move(small));
  for (int i = 0; i < 4; ++i) bench.step();
  EXPECT_FALSE(quick.tokens.empty());
  EXPECT_TRUE(slow.tokens.empty());
  bench.run();
}

// --- cancelling ---

TEST_F(SchedulerTest, CancellingReturnsEveryPageInEveryState) {
  for (const int steps : {0, 1, 3, 5, 12}) {
    Bench bench(*model_, {.prefill_chunk = 40}, {.max_sequences = 2});
    std::vector<RequestId> ids;
    std::vector<Story*> stories;
    for (int32_t i = 0; i < 4; ++i) {
      stories.push_back(&bench.submit(endless_of(prompt_of(20 + 31 * i, 150), 100, i)));
      ids.push_back(bench.last_id());
    }
    for (int i = 0; i < steps; ++i) bench.step();
    for (size_t i = 0; i < ids.size(); ++i) {
      bench.cancel(ids[i]);
      ASSERT_TRUE(stories[i]->done.has_value());
      EXPECT_EQ(stories[i]->answer().finish, FinishReason::kInterrupted);
      EXPECT_EQ(stories[i]->answer().tokens, stories[i]->tokens);
      EXPECT_EQ(stories[i]->answer().prompt_tokens, 150);
      bench.cancel(ids[i]);
    }
    EXPECT_FALSE(bench.scheduler().has_work());
    EXPECT_EQ(bench.engine().page_counts().held_by_sequences, 0);
    EXPECT_EQ(bench.scheduler().counters().ended_cancelled, 4);
  }
}

TEST_F(SchedulerTest, FinishedPagesOfACancelledPromptStay) {
  Bench bench(*model_, {.prefill_chunk = 40});
  bench.submit(endless_of(prompt_of(20, 150), 100));
  for (int i = 0; i < 3; ++i) bench.step();
  bench.cancel(bench.last_id());
  const Story& again = bench.submit(endless_of(prompt_of(20, 150), 3));
  bench.run();
  EXPECT_EQ(again.answer().reuse.cached_tokens, 120);
}

// --- constraints ---

TEST_F(SchedulerTest, AConstraintDecidesWhatMayBeSaidAndOutlivesAPreemption) {
  Bench bench(*model_, {}, {.max_sequences = 2});
  for (int32_t i = 0; i < 2; ++i) {
    Request request = endless_of(prompt_of(20 + 31 * i, 30), 40);
    request.tenant = "greedy";
    request.constraint = std::make_unique<Counting>(34);
    bench.submit(std::move(request));
  }
  for (int i = 0; i < 7; ++i) bench.step();
  Request other = endless_of(prompt_of(90, 30), 3);
  other.tenant = "modest";
  bench.submit(std::move(other));
  Request last = endless_of(prompt_of(120, 30), 8);
  last.constraint = std::make_unique<Counting>(34);
  const Story& story = bench.submit(std::move(last));
  bench.run();
  EXPECT_GT(bench.scheduler().counters().preemptions, 0);
  const Tokens expected = {{30}, {31}, {32}, {33}, {34}, {30}, {31}, {32}};
  EXPECT_EQ(story.tokens, expected);
  // Log-probabilities are the model's own.
  EXPECT_LT(story.logprobs[0].chosen.logprob, -0.1);
  EXPECT_EQ(story.logprobs[0].top.size(), 20u);
}

// --- every kind of cache ---

struct Kind {
  std::string model;
  std::string cache;
  std::string kv;
};

std::ostream& operator<<(std::ostream& out, const Kind& kind) {
  return out << kind.model << " " << kind.cache << " " << kind.kv;
}

class SchedulerOnEveryCache : public testing::TestWithParam<Kind> {};

TEST_P(SchedulerOnEveryCache, GivesTheAnswersOfEachAlone) {
  const auto model = load_or_die(tiny(GetParam().model));
  EngineOptions options{.context_tokens = 256, .static_sequences = 3, .prefill_chunk = 48};
  options.cache = parse_cache_policy(GetParam().cache).value();
  options.kv = kv::codecs_from_name(GetParam().kv).value();
  const auto request = [](int32_t i) {
    // Two share a beginning, and one comes twice.
    Tokens prompt = i < 2 ? joined(prompt_of(20, 150), prompt_of(70 + i, 20))
                          : prompt_of(20 + 9 * (i / 2), 100 + 10 * (i / 2));
    return request_of(std::move(prompt), 30, i);
  };
  Bench bench(*model, options, {.max_sequences = 4});
  std::vector<Story*> stories;
  for (int32_t i = 0; i < 6; ++i) {
    stories.push_back(&bench.submit(request(i)));
    bench.step();
  }
  bench.run();
  for (int32_t i = 0; i < 6; ++i) {
    SCOPED_TRACE(i);
    expect_same(*stories[static_cast<size_t>(i)], answer_alone(*model, options, request(i)));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, SchedulerOnEveryCache,
    testing::Values(Kind{"llama_tied", "dynamic", "f16"}, Kind{"llama_tied", "dynamic", "q8/q4"},
                    Kind{"llama_tied", "static", "f16"}, Kind{"llama_tied", "none", "f16"},
                    Kind{"llama_tied", "sliding:70+4", "f16"},
                    Kind{"llama_tied", "sliding:40", "q8"}, Kind{"gemma3", "dynamic", "f16"},
                    Kind{"gemma3", "dynamic", "q6"}, Kind{"gemma2", "static", "f32"},
                    Kind{"mixtral", "dynamic", "f16"}, Kind{"gpt2", "dynamic", "bf16"}));

}  // namespace
}  // namespace quire::engine
