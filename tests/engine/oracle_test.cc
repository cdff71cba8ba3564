// What Hugging Face transformers computes in fp32 is the truth for every model.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/tiny_models.h"

namespace quire::engine {
namespace {

// f32 engines agree to 3e-5 of the logits' rms; the smallest mistake we planted moves 4e-4.
constexpr double kTolerance = 3e-4;

class TinyOracle : public testing::TestWithParam<TinyModel> {};

TEST_P(TinyOracle, AgreesWithTransformersInF32) {
  const auto model = load_or_die(GetParam().path);
  const Golden golden = read_golden(GetParam());
  const auto engine = engine_or_die(*model, {.kv = {kv::Codec::F32, kv::Codec::F32},
                                             .activations = kernels::ActivationPolicy::kF32});
  Sequence sequence = engine->create_sequence();
  const std::vector<float> logits = all_logits(*engine, sequence, golden.tokens, 64);

  const auto vocab = static_cast<size_t>(model->config().vocab);
  ASSERT_EQ(golden.logits.size(), golden.positions.size() * vocab);
  for (size_t i = 0; i < golden.positions.size(); ++i) {
    double squares = 0.0;
    double worst = 0.0;
    for (size_t v = 0; v < vocab; ++v) {
      const double expected = golden.logits[i * vocab + v];
      const double got = logits[static_cast<size_t>(golden.positions[i]) * vocab + v];
      squares += expected * expected;
      worst = std::max(worst, std::abs(got - expected));
    }
    const double rms = std::sqrt(squares / static_cast<double>(vocab));
    EXPECT_LE(worst, kTolerance * rms) << "after token " << golden.positions[i];
  }
}

INSTANTIATE_TEST_SUITE_P(All, TinyOracle, testing::ValuesIn(tiny_models()),
                         [](const auto& test) { return test_name(test.param); });

}  // namespace
}  // namespace quire::engine
