// Law 1 under load on a real model: the same request alone, among 31 others, and preempted twice.
#include <gtest/gtest.h>

#include "engine/scheduler_testing.h"
#include "scenarios/real_model.h"

namespace quire::engine {
namespace {

class RealScheduler : public testing::Test {
 protected:
  void SetUp() override {
    const auto path = real_model("smollm2");
    QUIRE_SKIP_WITHOUT("smollm2", path);
    model_ = load_or_die(*path);
    for (const int32_t id : read_npy_ints(QUIRE_TEST_DATA "/real/smollm2/prose.ids.npy")) {
      text_.push_back(TokenId{id});
    }
  }

  /// `count` tokens of the text from `begin` on, and then so many chosen ones.
  Request request(size_t begin, size_t count, int64_t max_tokens, std::string tenant = {}) const {
    const auto at = text_.begin() + static_cast<std::ptrdiff_t>(begin);
    Request made = request_of({at, at + static_cast<std::ptrdiff_t>(count)}, max_tokens, begin);
    made.tenant = std::move(tenant);
    return made;
  }
  Request watched(std::string tenant = {}) const { return request(40, 150, 12, std::move(tenant)); }

  Generated alone() const {
    const auto engine = engine_or_die(*model_, {.threads = 1});
    Sequence sequence = engine->create_sequence();
    return generate(*engine, sequence, watched().prompt, watched().options, {}).value();
  }

  std::unique_ptr<Model> model_;
  std::vector<TokenId> text_;
};

TEST_F(RealScheduler, ARequestAmongThirtyOneOthersGetsTheLogitsItGetsAlone) {
  Bench bench(*model_, {.threads = 2, .prefill_chunk = 128}, {.max_sequences = 32});
  const Story* story = nullptr;
  for (size_t i = 0; i < 32; ++i) {
    // Some begin like it, some are read while it answers.
    if (i == 20) story = &bench.submit(watched());
    if (i != 20) bench.submit(request(i % 4 == 0 ? 40 : 3 * i, 20 + 3 * i, 8));
    if (i % 8 == 0) bench.step();
  }
  bench.run();
  expect_same(*story, alone());
}

TEST_F(RealScheduler, ARequestPreemptedTwiceGetsTheLogitsItGetsAlone) {
  Bench bench(*model_, {.threads = 2}, {.max_sequences = 2});
  bench.submit(request(300, 40, 40, "greedy"));
  const Story& story = bench.submit(watched("greedy"));
  for (const size_t tokens : {3, 7}) {
    while (story.tokens.size() < tokens) bench.step();
    const Story& other = bench.submit(request(200 + tokens, 30, 2, "modest"));
    while (!other.done) bench.step();
    ASSERT_FALSE(story.done.has_value());
  }
  bench.run();
  EXPECT_EQ(bench.scheduler().counters().preemptions, 2);
  expect_same(story, alone());
}

TEST_F(RealScheduler, WhereMemoryIsShortPreemptedRequestsAreRecomputedToTheSameLogits) {
  const auto roomy = engine_or_die(*model_, {});
  const int64_t pages = roomy->geometry().held_bytes(64);
  // Room for one of four pages and one of three, but both grow to four.
  EngineOptions options{.threads = 2, .context_tokens = 256, .memory_bytes = 7 * pages};
  options.prefix_bytes = 0;  // what is preempted is forgotten
  Bench bench(*model_, options, {.max_sequences = 4});
  bench.submit(request(300, 100, 150));
  Request long_watched = watched();
  long_watched.options.max_tokens = 100;
  const Generated expected = [&] {
    const auto engine = engine_or_die(*model_, {.threads = 2});
    Sequence sequence = engine->create_sequence();
    return generate(*engine, sequence, long_watched.prompt, long_watched.options, {}).value();
  }();
  const Story& story = bench.submit(std::move(long_watched));
  bench.run();
  EXPECT_GT(bench.scheduler().counters().preemptions, 0);
  expect_same(story, expected);
}

}  // namespace
}  // namespace quire::engine
