// Beam search on a real model against Hugging Face transformers, which ran on the same file's
// dequantized weights in fp32.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/beam_goldens.h"
#include "engine/logprobs.h"
#include "engine/tiny_models.h"
#include "scenarios/real_model.h"

namespace quire::engine {
namespace {

EngineOptions exact() {
  return {.threads = 2,
          .kv = {kv::Codec::F32, kv::Codec::F32},
          .activations = kernels::ActivationPolicy::kF32};
}

/// Searches and scores on one engine.
class Searcher {
 public:
  Searcher(const Model& model, const EngineOptions& options)
      : engine_(engine_or_die(model, options)) {}

  std::vector<BeamAnswer> search(const BeamGolden& golden) {
    auto result =
        beam_search(*engine_, engine_->create_sequence(), golden.prompt, golden.options, {});
    EXPECT_TRUE(result.ok());
    return result.ok() ? std::move(result->answers) : std::vector<BeamAnswer>();
  }

  /// The log-probability of an answer to `prompt`, per token.
  double score(const std::vector<TokenId>& prompt, const std::vector<TokenId>& answer) {
    std::vector<TokenId> all = prompt;
    all.insert(all.end(), answer.begin(), answer.end());
    Sequence sequence = engine_->create_sequence();
    const auto first = static_cast<int64_t>(prompt.size()) - 1;
    double sum = 0.0;
    const auto add = [&](int64_t index, std::span<const float> logits) -> Result<void> {
      if (index >= first) sum += logprob(logits, all[static_cast<size_t>(index) + 1]);
      return {};
    };
    const auto input = std::span<const TokenId>(all).first(all.size() - 1);
    EXPECT_TRUE(engine_->append_all_logits(sequence, input, add).ok());
    return sum / static_cast<double>(answer.size());
  }

 private:
  std::unique_ptr<Engine> engine_;
};

/// Hugging Face's log-probability of its best answer, per token.
double truth_per_token(const BeamGolden& golden) {
  const BeamGolden::Answer& best = golden.answers.front();
  const auto length = static_cast<double>(best.tokens.size());
  return best.score * std::pow(length, golden.options.rules.length_penalty - 1.0);
}

class RealBeams : public testing::TestWithParam<size_t> {};

TEST_P(RealBeams, InF32AreThoseOfHuggingFace) {
  const auto path = real_model("smollm2");
  QUIRE_SKIP_WITHOUT("smollm2", path);
  const auto model = load_or_die(*path);
  const BeamGolden golden = read_beam_goldens("smollm2").at(GetParam());
  Searcher exact_model(*model, exact());
  const std::vector<BeamAnswer> answers = exact_model.search(golden);
  ASSERT_EQ(answers.size(), golden.answers.size());
  for (size_t i = 0; i < answers.size(); ++i) {
    EXPECT_EQ(answers[i].generated.tokens, golden.answers[i].tokens) << i;
    const double truth = golden.answers[i].score;
    EXPECT_NEAR(answers[i].score, truth, 2e-4 * std::max(1.0, std::abs(truth))) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, RealBeams, testing::Range<size_t>(0, 3));

TEST(RealBeams, InInt8AreWorthAsMuchToTheExactModel) {
  const auto path = real_model("smollm2");
  QUIRE_SKIP_WITHOUT("smollm2", path);
  const auto model = load_or_die(*path);
  Searcher int8(*model, {.threads = 2});
  Searcher exact_model(*model, exact());
  std::vector<double> losses;
  for (const BeamGolden& golden : read_beam_goldens("smollm2")) {
    const double truth = truth_per_token(golden);
    const std::vector<TokenId> ours = int8.search(golden).front().generated.tokens;
    const double worth = exact_model.score(golden.prompt, ours);
    // The exact model's scores are Hugging Face's, and int8's are close to them.
    EXPECT_NEAR(exact_model.score(golden.prompt, golden.answers[0].tokens), truth, 1e-3);
    EXPECT_NEAR(int8.score(golden.prompt, ours), worth, 0.05);
    losses.push_back(truth - worth);
    std::printf("    %.4f nats a token, Hugging Face's %.4f\n", worth, truth);
  }
  // A beam that all but ties is kept or dropped by a hair: on open-ended prose the searches may
  // part early, and one find what the other has dropped. So the middle one counts.
  std::ranges::sort(losses);
  EXPECT_LE(losses[losses.size() / 2], 0.05);
}

}  // namespace
}  // namespace quire::engine
