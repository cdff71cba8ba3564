// profile.h: where the time of forward passes goes: per step and layer group, with the bytes that
// it read and the operations that it did.
//
// A step's bytes are those it cannot do without (weights, keys and values; not activations, which
// stay in the caches), a product and a sum are two operations. Off, it costs one branch a step. Use
// from one thread.
#pragma once
#include <chrono>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

namespace quire::model {

enum class Step : uint8_t {
  kEmbed,  // rows of the embedding, positions and angles of rotation
  kNorm,   // norms, quantization of what products read, sums of branches
  kQueryKeyValue,
  kStoreKv,   // rotation, and keys and values into their pages
  kSeal,      // full pages into codes
  kReadBack,  // waiting for spilled pages
  kAttend,
  kAttentionOut,
  kGateUp,
  kActivate,
  kDown,
  kExperts,  // router and products of experts
  kHead,
};
/// "embed", "norm", "qkv", "store kv", "seal", "attend", "attention out", "gate and up",
/// "activate", "down", "experts", "head".
std::string_view name(Step step);

struct StepCost {
  int64_t calls = 0;
  double seconds = 0.0;
  double bytes = 0.0;
  double operations = 0.0;
};

class Profile {
 public:
  static constexpr int32_t kNoGroup = -1;  // of steps outside the layers
  struct Row {
    Step step = Step::kEmbed;
    int32_t group = kNoGroup;
    StepCost cost;
  };

  void add(Step step, int32_t group, const StepCost& cost);
  /// By step, then by group.
  std::vector<Row> rows() const;
  /// Of all steps.
  double seconds() const;
  void clear() { costs_.clear(); }

 private:
  std::map<std::pair<Step, int32_t>, StepCost> costs_;
};

/// Times a step for as long as it lives; does nothing without a profile.
class StepTimer {
 public:
  StepTimer(Profile* profile, Step step, int32_t group)
      : profile_(profile), step_(step), group_(group) {
    if (profile_ != nullptr) start_ = Clock::now();
  }
  StepTimer(const StepTimer&) = delete;
  StepTimer& operator=(const StepTimer&) = delete;
  ~StepTimer() {
    if (profile_ == nullptr) return;
    cost_.calls = 1;
    cost_.seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    profile_->add(step_, group_, cost_);
  }

  bool is_on() const { return profile_ != nullptr; }
  void add_work(double bytes, double operations) {
    cost_.bytes += bytes;
    cost_.operations += operations;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Profile* const profile_;
  const Step step_;
  const int32_t group_;
  Clock::time_point start_;
  StepCost cost_;
};

}  // namespace quire::model
