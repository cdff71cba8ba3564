// What runs in the background: nobody waits for it longer than a small step, and nothing is lost.
#include <gmock/gmock.h>

#include "engine/scheduler_testing.h"

namespace quire::engine {
namespace {

using testing::SizeIs;

class SchedulerBackgroundTest : public testing::Test {
 protected:
  static Request background_of(std::vector<TokenId> prompt) {
    Request request = request_of(std::move(prompt), 1, 0);
    request.priority = Priority::kBackground;
    return request;
  }

  std::unique_ptr<Model> model_ = load_or_die(QUIRE_TEST_DATA "/tiny/llama_tied");
};

TEST_F(SchedulerBackgroundTest, ReadsInSmallStepsWhileNobodyElseIsThere) {
  Bench bench(*model_, {});
  const Story& story = bench.submit(background_of(prompt_of(20, 300)));
  bench.run();
  ASSERT_FALSE(story.prefill.empty());
  EXPECT_EQ(story.prefill.front().first, 64);
  EXPECT_EQ(story.prefill.back().first, 300);
}

TEST_F(SchedulerBackgroundTest, GivesWayAtOnceAndGoesOnFromItsPages) {
  Bench bench(*model_, {});
  const Story& story = bench.submit(background_of(prompt_of(20, 300)));
  bench.step();
  bench.step();
  const Story& other = bench.submit(request_of(prompt_of(90, 40), 8, 0));
  const size_t steps_before = story.prefill.size();
  int steps = 0;
  while (!other.done) {
    bench.step();
    ASSERT_LT(++steps, 9) << "the other waited: its prompt and each token take one step";
  }
  EXPECT_THAT(story.prefill, SizeIs(steps_before)) << "it read beside the other";
  EXPECT_EQ(bench.scheduler().counters().preemptions, 0);
  bench.run();
  ASSERT_TRUE(story.done && story.done->ok());
  EXPECT_EQ(story.prefill[steps_before].first, 3 * 64) << "it read something twice";
  // What it read is found by others.
  const Story& next = bench.submit(request_of(prompt_of(20, 310), 1, 0));
  bench.run();
  EXPECT_GE(next.starts.front().cached_tokens, 256);
}

TEST_F(SchedulerBackgroundTest, CanBeCancelledWhileItWaits) {
  Bench bench(*model_, {});
  const Story& story = bench.submit(background_of(prompt_of(20, 300)));
  const RequestId id = bench.last_id();
  bench.step();
  bench.submit(request_of(prompt_of(90, 40), 8, 0));
  bench.step();
  bench.cancel(id);
  ASSERT_TRUE(story.done && story.done->ok());
  EXPECT_EQ(story.answer().finish, FinishReason::kInterrupted);
  bench.run();
}

}  // namespace
}  // namespace quire::engine
