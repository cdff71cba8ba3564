// How many pages a beam search, or several choices of one prompt, hold at most: what they share is
// there once.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/beam_search.h"
#include "engine/tiny_models.h"

namespace quire::engine {
namespace {

constexpr int64_t kPrompt = 150;  // three pages, the last one partial
constexpr int64_t kNew = 140;     // across two borders
constexpr int32_t kBeams = 5;

int64_t pages(int64_t tokens) {
  return (tokens + kv::kPageTokens - 1) / kv::kPageTokens;
}

std::vector<TokenId> some_tokens(size_t count) {
  std::vector<TokenId> tokens(count);
  for (size_t i = 0; i < count; ++i) tokens[i] = TokenId{static_cast<int32_t>(3 + i * 7 % 200)};
  return tokens;
}

struct Case {
  const char* model;
  const char* cache;
  const char* codec;
  friend std::ostream& operator<<(std::ostream& out, const Case& c) {
    return out << c.model << " " << c.cache << " " << c.codec;
  }
};

/// The most that one group may hold while `beams` of `generated` tokens go on.
struct Bound {
  int64_t open = 0;
  int64_t sealed = 0;
};

Bound bound(const kv::LayerGroup& group, int64_t generated, int64_t beams) {
  if (group.is_lossless()) return {pages(kPrompt) + beams * (pages(generated) + 1), 0};
  // Open: page 0, and for each beam the page that it fills and the one that it has just filled.
  // Sealed: the prompt's full pages but page 0, and for each beam those that it filled.
  return {1 + 2 * beams, kPrompt / kv::kPageTokens - 1 + beams * pages(generated)};
}

class BeamPages : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    model_ = load_or_die(QUIRE_TEST_DATA "/tiny/" + std::string(GetParam().model));
    // Chunks of 16: what reading the prompt holds at once stays below what the beams hold. No
    // prefix tree: it would keep the prompt's pages for others.
    engine_ = engine_or_die(*model_, {.cache = parse_cache_policy(GetParam().cache).value(),
                                      .kv = kv::codecs_from_name(GetParam().codec).value(),
                                      .prefill_chunk = 16,
                                      .prefix_reuse = PrefixReuse::kOff});
  }

  void expect_within(int64_t generated, int64_t beams) const {
    const kv::KvStats stats = engine_->kv_stats();
    const auto& groups = engine_->geometry().groups();
    for (size_t g = 0; g < groups.size(); ++g) {
      const Bound most = bound(groups[g], generated, beams);
      EXPECT_LE(stats.groups[g].pages_held, most.open) << generated << " tokens, group " << g;
      EXPECT_LE(stats.groups[g].sealed_pages_held, most.sealed) << generated << ", group " << g;
    }
  }

  /// Also in the middle of a step, which the peak of bytes remembers.
  void expect_peak_within(int64_t generated, int64_t beams) const {
    int64_t bytes = 0;
    for (const kv::LayerGroup& group : engine_->geometry().groups()) {
      const Bound most = bound(group, generated, beams);
      bytes += most.open * group.page_bytes() + most.sealed * group.sealed_page_bytes();
    }
    EXPECT_LE(engine_->kv_stats().bytes_peak, bytes);
  }

  std::unique_ptr<Model> model_;
  std::unique_ptr<Engine> engine_;
};

TEST_P(BeamPages, NeverExceedThePromptsAndEachBeamsOwn) {
  BeamSearchOptions options;
  options.rules = {.beams = kBeams, .early_stopping = EarlyStopping::kNever};
  options.max_tokens = kNew;
  const auto count = [&](int64_t done, int64_t) {
    expect_within(done, kBeams);
    // They do share: five sequences of their own would hold more.
    EXPECT_LT(engine_->kv_stats().bytes_held,
              kBeams * engine_->geometry().held_bytes(kPrompt + done - 1));
    engine_->check();
    return true;
  };
  const auto result = beam_search(*engine_, engine_->create_sequence(), some_tokens(kPrompt),
                                  options, {.on_prefill = {}, .on_token = count});
  ASSERT_TRUE(result.ok());
  ASSERT_FALSE(result->cut_short);
  expect_peak_within(kNew, kBeams);
  EXPECT_GT(engine_->kv_stats().pages_copied, 0);
  EXPECT_EQ(engine_->kv_stats().bytes_held, 0);
}

/// As `run --choices` does it: the prompt is read once, each choice forks it.
TEST_P(BeamPages, OfChoicesNeverExceedThePromptsAndEachChoicesOwn) {
  const auto prompt = some_tokens(kPrompt);
  Sequence base = engine_->create_sequence();
  ASSERT_TRUE(engine_->append(base, prompt).ok());
  ASSERT_TRUE(engine_->truncate(base, kPrompt - 1).ok());
  std::vector<Sequence> choices;
  for (int32_t choice = 0; choice < kBeams; ++choice) {
    choices.push_back(engine_->fork(base));
    GenerateOptions options;
    options.sampling.choice = choice;
    options.max_tokens = kNew;
    ASSERT_TRUE(generate(*engine_, choices.back(), prompt, options, {}).ok());
    // The prompt itself is kept beside them: one sequence more.
    expect_within(kNew, choice + 2);
    engine_->check();
  }
  expect_peak_within(kNew, kBeams + 1);
  EXPECT_EQ(engine_->kv_stats().num_sequences, kBeams + 1);
}

INSTANTIATE_TEST_SUITE_P(
    All, BeamPages,
    testing::Values(Case{"llama_tied", "dynamic", "f16"}, Case{"llama_tied", "dynamic", "f32"},
                    Case{"llama_tied", "dynamic", "q8"}, Case{"llama_tied", "dynamic", "q6/q4"},
                    Case{"llama_tied", "dynamic", "q3"}, Case{"llama_tied", "sliding:100+4", "f16"},
                    Case{"gemma3", "dynamic", "f16"}, Case{"gemma3", "dynamic", "q8"}),
    [](const auto& tested) {
      std::string name = testing::PrintToString(tested.param);
      std::ranges::replace_if(
          name, [](char c) { return std::isalnum(c) == 0; }, '_');
      return name;
    });

}  // namespace
}  // namespace quire::engine
