// forward_pass.h: one forward pass: the named steps of a layer, each over all rows of the batch; of
// the last layer, what follows keys and values only over the rows whose logits are wanted.
//
// Internal to the transformer. Steps read and write the scratch of the pass; which of them a model
// has, and their numbers, come from its ModelConfig. Attention's steps are in
// forward_pass_attention.cc, those of feed-forward blocks and experts in forward_pass_ffn.cc.
#pragma once
#include <algorithm>
#include <functional>
#include <initializer_list>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/kernel_set.h"
#include "model/attention_plan.h"
#include "model/batch.h"
#include "model/config.h"
#include "model/expert_routes.h"
#include "model/matmul_group.h"
#include "model/profile.h"
#include "model/scratch.h"
#include "model/seal_plan.h"
#include "model/transformer.h"
#include "model/weights.h"

namespace quire::model {

class ForwardPass {
 public:
  struct Parts {
    const ModelConfig& config;
    const Weights& weights;
    const kernels::KernelSet& kernels;
    ThreadPool& threads;
    const std::vector<KvPlace>& places;
    kernels::ActivationPolicy policy;
    int32_t max_rows;
    Scratch& scratch;
    Profile* profile;  // nullptr: none is wanted
  };
  ForwardPass(const Parts& parts, const Batch& batch)
      : c_(parts.config),
        w_(parts.weights),
        kernels_(parts.kernels),
        threads_(parts.threads),
        places_(parts.places),
        policy_(parts.policy),
        max_rows_(parts.max_rows),
        s_(parts.scratch),
        profile_(parts.profile),
        batch_(batch) {}

  /// Fails only where the batch's stream does. // logits: [logit_rows, vocab]
  Result<void> run(std::span<float> logits);
  /// See Transformer::forward_some().
  bool run_some(PausedPass& pass, const std::function<bool()>& goes_on, std::span<float> logits);

 private:
  using Consumers = std::initializer_list<const kernels::WeightMatrix*>;

  // Start and end of a pass.
  void prepare();
  void enter(int32_t layer);
  void run_layer(int32_t layer);
  void run_last_layer(std::span<float> logits);
  void finish(int32_t layer, std::span<float> logits);
  void take_rows(std::span<const int32_t> rows);
  ForwardPass over(const Batch& batch) const;
  void embed();
  void add_positions(int32_t row_begin, int32_t row_end);
  Result<void> read_back(int32_t layer);
  void find_positions();
  void prepare_rotations();
  void plan_attentions();
  void project_logits(std::span<float> logits);

  // Attention.
  void store_keys_and_values(int32_t layer);
  void attention_block(int32_t layer);
  void rotate_and_store(int32_t layer);
  void seal_full_pages(int32_t layer);
  void norm_query_and_key(const LayerWeights& w, int32_t row_begin, int32_t row_end);
  void rotate(int32_t rope, int32_t row_begin, int32_t row_end);
  void attend(int32_t layer);
  void count_attention(KvPlace place, StepTimer& timer) const;
  std::vector<kernels::AttentionArgs> attention_args(KvPlace place);
  float* partials_for(int64_t count);

  // Feed-forward.
  void ffn_block(int32_t layer);
  void dense_ffn(const LayerWeights& w, kernels::Activations& x);
  void gate_up_and_activate(const FfnWeights& w, kernels::Activations& x);
  void gate_and_up(const FfnWeights& w, kernels::Activations& x, FfnScratch& ffn);
  void activate_and_quantize(const FfnWeights& w, FfnScratch& ffn, QuantizedForms forms,
                             int32_t rows);
  void expert_ffn(const LayerWeights& w, kernels::Activations& x);
  QuantizedForms expert_forms(const ExpertWeights& e,
                              std::initializer_list<Linear FfnWeights::*> which) const;
  ExpertRoutes route(const ExpertWeights& e, kernels::Activations& x);
  void gather_rows(const ExpertWeights& e, const ExpertRoutes& routes, kernels::Activations& x);
  void run_experts(const ExpertWeights& e, const ExpertRoutes& routes);
  void run_shared_expert(const ExpertWeights& e, kernels::Activations& x);
  void sum_experts(const ExpertRoutes& routes);

  // What both use.
  StepTimer timed(Step step) const { return {profile_, step, group_}; }
  /// What products read and compute, for the profile.
  static void count_products(StepTimer& timer, std::span<const kernels::MatmulArgs> products);
  static void count_products(StepTimer& timer,
                             std::initializer_list<kernels::MatmulArgs> products) {
    count_products(timer, std::span(products.begin(), products.size()));
  }
  /// Runs products that share their input.
  void multiply(Step step, std::span<const kernels::MatmulArgs> products);
  void multiply(Step step, std::initializer_list<kernels::MatmulArgs> products) {
    multiply(step, std::span(products.begin(), products.size()));
  }
  float* stream() { return floats(s_.stream); }
  static float* floats(HugeBuffer& buffer) { return buffer.as<float>().data(); }
  float* angles(HugeBuffer& buffer, int32_t rope) {
    return floats(buffer) + int64_t{rope} * max_rows_ * (c_.head_dim / 2);
  }
  /// Norm of rows of `x` into `y`; a copy where the layer has none.
  void norm_rows(const NormWeights& norm, const float* x, float* y, int64_t cols, int64_t row_begin,
                 int64_t row_end) const;
  /// The stream's rows normed into `out`, quantized in the forms that `consumers` need.
  void norm_and_quantize(const NormWeights& norm, kernels::Activations& out, Consumers consumers);
  void quantize_rows(kernels::Activations& x, Consumers consumers);
  kernels::MatmulArgs product(const kernels::WeightMatrix& weights, kernels::Activations& x,
                              float* out, kernels::Store store = kernels::Store::kReplace);
  /// out[row] += bias, where there is one. // out: [rows, bias]
  void add_bias(const std::vector<float>& bias, float* out, int64_t row_begin,
                int64_t row_end) const;
  /// stream += residual_scale * post_norm(weights x + bias).
  void add_product(Step step, const Linear& weights, kernels::Activations& x,
                   const NormWeights& post_norm);
  /// stream += residual_scale * post_norm(branch), for what stands in the branch buffer.
  void add_branch(const NormWeights& post_norm);

  /// Calls step(row_begin, row_end) over all rows, on all threads.
  template <class Step>
  void for_rows(int32_t num_rows, Step&& step) {
    constexpr int32_t kRowsPerChunk = 8;  // row-wise steps are short
    const int32_t chunks = (num_rows + kRowsPerChunk - 1) / kRowsPerChunk;
    threads_.parallel(chunks, [&](int32_t chunk) {
      const kernels::ScopedFloatEnvironment environment;
      const int32_t begin = chunk * kRowsPerChunk;
      step(begin, std::min(begin + kRowsPerChunk, num_rows));
    });
  }

  const ModelConfig& c_;
  const Weights& w_;
  const kernels::KernelSet& kernels_;
  ThreadPool& threads_;
  const std::vector<KvPlace>& places_;
  const kernels::ActivationPolicy policy_;
  const int32_t max_rows_;
  Scratch& s_;
  Profile* const profile_;
  int32_t group_ = Profile::kNoGroup;  // of the layer at hand
  const Batch& batch_;
  std::vector<AttentionPlan> plans_;          // [layer groups]
  std::vector<std::vector<PageSeal>> seals_;  // [layer groups]
};

}  // namespace quire::model
