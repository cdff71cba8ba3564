// The prefix tree on the real models: what is found again gives the bits of a cold run.
#include <gtest/gtest.h>

#include "engine/generate.h"
#include "engine/tiny_models.h"
#include "kernels/same_bits.h"
#include "scenarios/real_model.h"

namespace quire::engine {
namespace {

using Tokens = std::vector<TokenId>;

using kernels::same_bits;

class RealPrefix : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const auto path = real_model(GetParam());
    QUIRE_SKIP_WITHOUT(GetParam(), path);
    model_ = load_or_die(*path);
    prose_ = real_prose(GetParam());
  }

  /// `count` tokens of prose, over and over.
  Tokens text(size_t begin, size_t count) const {
    Tokens tokens;
    for (size_t i = 0; i < count; ++i) tokens.push_back(prose_[(begin + i) % prose_.size()]);
    return tokens;
  }

  /// The last token's logits of a prompt that is read from nothing.
  std::vector<float> cold_logits(const Tokens& prompt) {
    const auto engine = engine_or_die(*model_, {.threads = 2, .prefix_reuse = PrefixReuse::kOff});
    Sequence sequence = engine->create_sequence();
    const auto logits = engine->append(sequence, prompt).value();
    return {logits.begin(), logits.end()};
  }

  /// The same from what the engine knows; publishes it all.
  std::vector<float> hot_logits(Engine& engine, const Tokens& prompt, Reuse& reuse) {
    Sequence sequence = engine.create_sequence();
    reuse = engine.resume(sequence, prompt);
    const auto rest =
        std::span<const TokenId>(prompt).subspan(static_cast<size_t>(reuse.cached_tokens));
    const auto logits = engine.append(sequence, rest).value();
    std::vector<float> copy(logits.begin(), logits.end());
    engine.publish(sequence, PublishPoint::kEnds);
    engine.check();
    return copy;
  }

  std::unique_ptr<Model> model_;
  Tokens prose_;
};

TEST_P(RealPrefix, TheSecondTurnOf2000TokensReadsOnlyWhatIsNew) {
  const auto engine = engine_or_die(*model_, {.threads = 2});
  const Tokens first = text(0, 2000);
  Tokens second = first;
  for (const TokenId token : text(300, 40)) second.push_back(token);
  Reuse reuse;
  hot_logits(*engine, first, reuse);
  EXPECT_EQ(reuse.cached_tokens, 0);
  const std::vector<float> hot = hot_logits(*engine, second, reuse);
  EXPECT_EQ(reuse.cached_tokens, 2000);
  EXPECT_TRUE(same_bits(hot, cold_logits(second)));
}

TEST_P(RealPrefix, ABranchFromTheMiddleOfTheHistoryGivesTheBitsOfAColdRun) {
  const auto engine = engine_or_die(*model_, {.threads = 2});
  Reuse reuse;
  // Two turns, longer than Gemma's window of 512 tokens.
  for (const size_t turn : {600u, 1300u}) hot_logits(*engine, text(0, turn), reuse);
  Tokens branch = text(0, 750);
  for (const TokenId token : text(50, 20)) branch.push_back(token);
  const std::vector<float> hot = hot_logits(*engine, branch, reuse);
  // Gemma goes on from the end of the first turn, a model without windows from the branch itself.
  const bool has_windows = GetParam() == std::string("gemma3");
  EXPECT_EQ(reuse.cached_tokens, has_windows ? 600 : 750);
  ASSERT_TRUE(reuse.miss.has_value());
  EXPECT_EQ(reuse.miss->reason,
            has_windows ? kv::MissReason::kWindowPageGone : kv::MissReason::kTokenDiffers);
  EXPECT_TRUE(same_bits(hot, cold_logits(branch)));
}

TEST_P(RealPrefix, EightBranchesOfOnePrefixStoreItOnceAndAPartialPageEach) {
  const auto engine = engine_or_die(*model_, {.threads = 2});
  const int64_t pages = 5;  // of the prefix, whole ones
  const Tokens prefix = text(0, pages * 64 + 20);
  {
    Sequence sequence = engine->create_sequence();
    ASSERT_TRUE(engine->append(sequence, prefix).ok());
    engine->publish(sequence, PublishPoint::kEnds);
  }
  std::vector<Sequence> branches;
  for (size_t i = 0; i < 8; ++i) {
    Tokens prompt = prefix;
    for (const TokenId token : text(10 * i, 8)) prompt.push_back(token);
    branches.push_back(engine->create_sequence());
    ASSERT_EQ(engine->resume(branches.back(), prompt).cached_tokens,
              static_cast<int64_t>(prefix.size()));
    ASSERT_TRUE(engine->append(branches.back(), std::span(prompt).subspan(prefix.size())).ok());
  }
  engine->check();
  for (const kv::KvGroupStats& group : engine->kv_stats().groups) {
    EXPECT_EQ(group.pages_held, pages + 1 + 8);
  }
}

INSTANTIATE_TEST_SUITE_P(All, RealPrefix, testing::Values("smollm2", "gemma3"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace quire::engine
