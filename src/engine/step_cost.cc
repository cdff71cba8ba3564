#include "engine/step_cost.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace quire::engine {
namespace {

// A step that the system interrupted must not upset the prices.
constexpr double kMostCorrection = 2.0;
constexpr double kLearningRate = 0.3;
// What a prompt adds to a step is at least this part of it, however long the answers' part seemed.
constexpr double kLeastReading = 0.05;

std::array<double, 4> amounts(const StepWork& work) {
  return {1.0, work.rows, work.kv_tokens, work.pairs};
}

}  // namespace

void StepWork::add(int64_t position, int64_t tokens) {
  const auto before = static_cast<double>(position);
  const auto fresh = static_cast<double>(tokens);
  rows += fresh;
  kv_tokens += before + fresh;
  pairs += fresh * (before + (fresh + 1.0) / 2.0);
}

StepCost::StepCost(const StepPrices& guess)
    : decoding_{{guess.pass_ms, guess.row_ms, guess.kv_token_ms, guess.pair_ms}},
      // The weights are streamed anyway; what is left of a pass is a beginning.
      reading_{{0.05 * guess.pass_ms, guess.row_ms, guess.kv_token_ms, guess.pair_ms}} {
  for (const double price : decoding_.ms) QUIRE_CHECK(price > 0.0, "everything costs something");
}

double StepCost::predict_ms(const BatchWork& work) const {
  const double decoding_ms = predict_decoding_ms(work);
  return work.reading.rows > 0.0 ? decoding_ms + reading_.predict(work.reading) : decoding_ms;
}

double StepCost::predict_decoding_ms(const BatchWork& work) const {
  return decoding_.predict(work.decoding);
}

void StepCost::learn(const BatchWork& work, double measured_ms) {
  const double measured = std::max(measured_ms, 1e-3);
  if (work.reading.rows == 0.0) {
    decoding_.learn(work.decoding, measured);
  } else {
    const double rest = measured - predict_decoding_ms(work);
    reading_.learn(work.reading, std::max(rest, kLeastReading * measured));
  }
}

double StepCost::Prices::predict(const StepWork& work) const {
  const auto amount = amounts(work);
  double sum = 0.0;
  for (size_t i = 0; i < ms.size(); ++i) sum += ms[i] * amount[i];
  return sum;
}

void StepCost::Prices::learn(const StepWork& work, double measured_ms) {
  const auto amount = amounts(work);
  const double predicted = predict(work);
  if (!has_learned) {
    has_learned = true;
    for (double& price : ms) price *= measured_ms / predicted;
    return;
  }
  const double correction =
      std::clamp(measured_ms / predicted, 1.0 / kMostCorrection, kMostCorrection);
  std::array<double, 4> shares{};
  double squares = 0.0;
  for (size_t i = 0; i < ms.size(); ++i) {
    shares[i] = ms[i] * amount[i] / predicted;
    squares += shares[i] * shares[i];
  }
  // The same step would now be foretold nearer to what it took, by this part of the difference.
  for (size_t i = 0; i < ms.size(); ++i) {
    ms[i] *= std::pow(correction, kLearningRate * shares[i] / squares);
  }
}

}  // namespace quire::engine
