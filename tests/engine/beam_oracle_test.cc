// Beam search against Hugging Face transformers (the version is in the goldens) on tiny models in
// f32: the same answers in the same order with the same scores.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "engine/beam_goldens.h"
#include "engine/tiny_models.h"

namespace quire::engine {
namespace {

class BeamOracle : public testing::TestWithParam<std::string> {};

TEST_P(BeamOracle, FindsTheSameAnswersWithTheSameScores) {
  const auto model = load_or_die(QUIRE_TEST_DATA "/tiny/" + GetParam());
  const auto engine = engine_or_die(*model, {.kv = {kv::Codec::F32, kv::Codec::F32},
                                             .activations = kernels::ActivationPolicy::kF32});
  const std::vector<BeamGolden> goldens = read_beam_goldens(GetParam());
  ASSERT_GE(goldens.size(), 20u);
  int64_t stopped = 0;
  for (const BeamGolden& golden : goldens) {
    SCOPED_TRACE(golden.name);
    const auto result =
        beam_search(*engine, engine->create_sequence(), golden.prompt, golden.options, {});
    ASSERT_TRUE(result.ok());
    ASSERT_EQ(result->answers.size(), golden.answers.size());
    for (size_t i = 0; i < golden.answers.size(); ++i) {
      const BeamAnswer& answer = result->answers[i];
      EXPECT_EQ(answer.generated.tokens, golden.answers[i].tokens) << i;
      const double truth = golden.answers[i].score;
      EXPECT_NEAR(answer.score, truth, 2e-5 * std::max(1.0, std::abs(truth))) << i;
      stopped += answer.generated.finish == FinishReason::kStop ? 1 : 0;
    }
    EXPECT_EQ(engine->kv_stats().num_sequences, 0);
  }
  EXPECT_GE(stopped, 10);  // the goldens are no goldens of searches that only run out of length
}

INSTANTIATE_TEST_SUITE_P(All, BeamOracle,
                         testing::Values("llama_tied", "llama_untied", "llama3_rope", "gemma3",
                                         "gemma3_legacy"));

}  // namespace
}  // namespace quire::engine
