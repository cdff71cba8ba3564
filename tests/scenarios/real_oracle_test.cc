// The real models against Hugging Face transformers in fp32, on texts of a thousand tokens and
// more.
//
// The goldens hold each position's NLL, log-sum-exp and top 32 logits. KL is taken over those 32
// tokens and one bucket for all others, which is at most the full KL; `./dev oracle` computes that
// one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/logprobs.h"
#include "engine/tiny_models.h"
#include "scenarios/real_model.h"

namespace quire::engine {
namespace {

constexpr size_t kTop = 32;

struct Case {
  const char* model;
  const char* text;
  friend std::ostream& operator<<(std::ostream& out, const Case& c) {
    return out << c.model << "_" << c.text;
  }
};

struct Truth {
  std::vector<TokenId> ids;      // [tokens]
  std::vector<float> nll;        // [tokens - 1], of ids[1:]
  std::vector<float> lse;        // [tokens]
  std::vector<int32_t> top_ids;  // [tokens, kTop], best first
  std::vector<float> top;        // [tokens, kTop]
};

Truth read_truth(const Case& c) {
  const std::string stem = std::string(QUIRE_TEST_DATA "/real/") + c.model + "/" + c.text;
  Truth truth{{},
              read_npy_floats(stem + ".nll.npy"),
              read_npy_floats(stem + ".lse.npy"),
              read_npy_ints(stem + ".top_ids.npy"),
              read_npy_floats(stem + ".top_logits.npy")};
  for (const int32_t id : read_npy_ints(stem + ".ids.npy")) truth.ids.push_back(TokenId{id});
  return truth;
}

struct Agreement {
  double kl = 0.0;              // mean
  double nll_difference = 0.0;  // mean NLL minus the truth's
  double top1 = 0.0;            // share of positions with the same argmax
  int64_t clear_flips = 0;      // another argmax although the truth's margin is at least 1
};

class Comparison {
 public:
  explicit Comparison(const Truth& truth) : truth_(truth) {}

  void add(size_t position, std::span<const float> logits) {
    const double lse = log_sum_exp(logits);
    const float* top = truth_.top.data() + position * kTop;
    const int32_t* ids = truth_.top_ids.data() + position * kTop;
    double kl = 0.0;
    double p_rest = 1.0;
    double q_rest = 1.0;
    for (size_t i = 0; i < kTop; ++i) {
      const double log_p = top[i] - truth_.lse[position];
      const double log_q = logits[static_cast<size_t>(ids[i])] - lse;
      kl += std::exp(log_p) * (log_p - log_q);
      p_rest -= std::exp(log_p);
      q_rest -= std::exp(log_q);
    }
    if (p_rest > 1e-7 && q_rest > 1e-7) kl += p_rest * std::log(p_rest / q_rest);
    kl_ += kl;
    const bool same = argmax(logits).value == ids[0];
    same_ += same ? 1 : 0;
    if (!same && top[0] - top[1] >= 1.0f) ++clear_flips_;
    if (position + 1 < truth_.ids.size()) {
      const TokenId next = truth_.ids[position + 1];
      nll_ += lse - logits[static_cast<size_t>(next.value)] - truth_.nll[position];
      ++scored_;
    }
    ++count_;
  }

  Agreement result() const {
    const auto n = static_cast<double>(count_);
    return {kl_ / n, nll_ / static_cast<double>(scored_), static_cast<double>(same_) / n,
            clear_flips_};
  }

 private:
  const Truth& truth_;
  double kl_ = 0.0;
  double nll_ = 0.0;
  int64_t same_ = 0;
  int64_t clear_flips_ = 0;
  int64_t scored_ = 0;
  int64_t count_ = 0;
};

class RealOracle : public testing::TestWithParam<Case> {
 protected:
  Agreement compare(EngineOptions options, size_t most_tokens) {
    const auto model = load_or_die(*real_model(GetParam().model));
    const Truth truth = read_truth(GetParam());
    options.threads = 2;
    const auto engine = engine_or_die(*model, options);
    Sequence sequence = engine->create_sequence();
    Comparison comparison(truth);
    const std::span<const TokenId> ids = truth.ids;
    const auto done = engine->append_all_logits(
        sequence, ids.first(std::min(most_tokens, ids.size())),
        [&](int64_t index, std::span<const float> logits) -> Result<void> {
          comparison.add(static_cast<size_t>(index), logits);
          return {};
        });
    EXPECT_TRUE(done.ok());
    const Agreement a = comparison.result();
    RecordProperty("kl", std::to_string(a.kl));
    std::printf("    KL %.2e, NLL %+.5f, top-1 %.2f %%, clear flips %lld\n", a.kl, a.nll_difference,
                100.0 * a.top1, static_cast<long long>(a.clear_flips));
    return a;
  }
};

TEST_P(RealOracle, F32ActivationsAgreeAlmostExactly) {
  QUIRE_SKIP_WITHOUT(GetParam().model, real_model(GetParam().model));
  const Agreement a = compare(
      {.kv = {kv::Codec::F32, kv::Codec::F32}, .activations = kernels::ActivationPolicy::kF32},
      3000);
  EXPECT_LE(a.kl, 1e-5);
  EXPECT_GE(a.top1, 0.995);
  EXPECT_EQ(a.clear_flips, 0);
}

TEST_P(RealOracle, Int8ActivationsStayClose) {
  QUIRE_SKIP_WITHOUT(GetParam().model, real_model(GetParam().model));
  const Agreement a = compare({}, 3000);
  EXPECT_LE(a.kl, 0.008);
  EXPECT_LE(std::abs(a.nll_difference), 0.02);
  EXPECT_GE(a.top1, 0.94);
  EXPECT_EQ(a.clear_flips, 0);
}

INSTANTIATE_TEST_SUITE_P(All, RealOracle,
                         testing::Values(Case{"smollm2", "prose"}, Case{"smollm2", "code"},
                                         Case{"smollm2", "scripts"}, Case{"gemma3", "prose"},
                                         Case{"gemma3", "code"}, Case{"gemma3", "scripts"}),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace quire::engine
