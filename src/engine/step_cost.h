// step_cost.h: how long a step of an engine takes, foretold from how long those before it took.
//
// A step streams the weights once, computes rows, reads keys and values, and meets each query with
// each key; each of these has a price. Answers and prompts have prices of their own: what answers
// cost is learned from steps without prompts, so that it does not drift while a long prompt is read
// beside them. Each measured step corrects the prices in proportion to their shares in it. One
// thread at a time.
#pragma once
#include <array>
#include <cstdint>

namespace quire::engine {

/// What sequences do in a step, summed up.
struct StepWork {
  double rows = 0.0;       // tokens that run
  double kv_tokens = 0.0;  // tokens whose keys and values are read
  double pairs = 0.0;      // of queries and keys

  /// One more sequence, which stands at `position` and appends `tokens`.
  void add(int64_t position, int64_t tokens);
};

struct BatchWork {
  StepWork decoding;  // sequences that append the token chosen last
  StepWork reading;   // those that read a prompt
};

/// What a model's numbers say about its steps before any was measured. Only their relation matters:
/// the first measured step scales them all.
struct StepPrices {
  double pass_ms = 0.0;
  double row_ms = 0.0;
  double kv_token_ms = 0.0;
  double pair_ms = 0.0;
};

class StepCost {
 public:
  /// Requires all of them to be positive.
  explicit StepCost(const StepPrices& guess);

  [[nodiscard]] double predict_ms(const BatchWork& work) const;
  /// The same work without its prompts.
  [[nodiscard]] double predict_decoding_ms(const BatchWork& work) const;
  void learn(const BatchWork& work, double measured_ms);

 private:
  /// Of a pass, a row, a token read and a pair.
  struct Prices {
    std::array<double, 4> ms;
    bool has_learned = false;

    [[nodiscard]] double predict(const StepWork& work) const;
    void learn(const StepWork& work, double measured_ms);
  };

  Prices decoding_;
  Prices reading_;
};

}  // namespace quire::engine
