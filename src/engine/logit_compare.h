// logit_compare.h: how far two models' logits lie apart, row by row.
//
// KL is that of the reference's distribution to the other's, sum p log(p / q), in nats and in
// double. Plain accumulation; use from one thread.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace quire::engine {

/// KL(softmax(reference) || softmax(other)) >= 0. Requires equal, non-zero lengths.
double kl_divergence(std::span<const float> reference, std::span<const float> other);

class LogitComparison {
 public:
  void add(std::span<const float> reference, std::span<const float> other);

  int64_t rows() const { return static_cast<int64_t>(kl_.size()); }
  double kl_mean() const;
  double kl_max() const;
  /// The smallest value that at least 99 % of the rows do not exceed.
  double kl_p99() const;
  /// Share of rows with the same likeliest token, 0 to 1; 1 without rows.
  double top1_agreement() const;
  /// Largest difference of two logits.
  double max_abs_diff() const { return max_abs_diff_; }
  /// Whether every logit had the same bits.
  bool identical() const { return !first_difference_; }
  struct Difference {
    int64_t row;
    int64_t token;
  };
  std::optional<Difference> first_difference() const { return first_difference_; }

 private:
  std::vector<double> kl_;
  int64_t agreeing_ = 0;
  double max_abs_diff_ = 0.0;
  std::optional<Difference> first_difference_;
};

}  // namespace quire::engine
