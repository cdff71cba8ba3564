// What each KV codec costs on the real models: KL of the next token's distribution to f16 pages.
//
// With f32 activations, so that nothing but the codec differs: int8 rounding turns any difference
// into a KL of about 2e-3 (docs/numerics.md).
#include <gtest/gtest.h>

#include <cstdio>

#include "engine/logit_compare.h"
#include "engine/tiny_models.h"
#include "scenarios/real_model.h"

namespace quire::engine {
namespace {

constexpr size_t kTokens = 1000;

struct Gate {
  const char* codecs;
  double most_kl;
};

class LongRealCodecs : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const auto path = real_model(GetParam());
    QUIRE_SKIP_WITHOUT(GetParam(), path);
    model_ = load_or_die(*path);
    const auto ids =
        read_npy_ints(std::string(QUIRE_TEST_DATA "/real/") + GetParam() + "/prose.ids.npy");
    for (size_t i = 0; i < kTokens; ++i) text_.push_back(TokenId{ids.at(i)});
  }

  /// Logits of every token. // [tokens, vocab]
  std::vector<float> read(std::string_view codecs) const {
    EngineOptions options{.threads = 2, .activations = kernels::ActivationPolicy::kF32};
    options.kv = kv::codecs_from_name(codecs).value();
    const auto engine = engine_or_die(*model_, options);
    Sequence sequence = engine->create_sequence();
    return all_logits(*engine, sequence, text_, 256);
  }

  LogitComparison compare(const std::vector<float>& f16, std::string_view codecs) const {
    const std::vector<float> lossy = read(codecs);
    const auto vocab = static_cast<size_t>(model_->config().vocab);
    LogitComparison comparison;
    for (size_t row = 0; row < kTokens; ++row) {
      comparison.add(std::span(f16).subspan(row * vocab, vocab),
                     std::span(lossy).subspan(row * vocab, vocab));
    }
    std::printf("    %s %s: KL mean %.2e, top-1 %.1f %%\n", GetParam(), std::string(codecs).c_str(),
                comparison.kl_mean(), 100.0 * comparison.top1_agreement());
    return comparison;
  }

  std::unique_ptr<Model> model_;
  std::vector<TokenId> text_;
};

TEST_P(LongRealCodecs, StayWithinTheirBounds) {
  const std::vector<float> f16 = read("f16");
  double last = 0.0;
  for (const Gate gate : {Gate{"q8", 1e-4}, Gate{"q6", 1e-3}, Gate{"q6/q4", 3e-3}, Gate{"q4", 0.01},
                          Gate{"q3", 0.05}}) {
    const LogitComparison comparison = compare(f16, gate.codecs);
    EXPECT_LE(comparison.kl_mean(), gate.most_kl) << gate.codecs;
    // Fewer bits cost more: else the codec was not used.
    EXPECT_GT(comparison.kl_mean(), last) << gate.codecs;
    last = comparison.kl_mean();
  }
}

INSTANTIATE_TEST_SUITE_P(All, LongRealCodecs, testing::Values("smollm2", "gemma3"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace quire::engine
