// The feed-forward block of a forward pass, dense or of experts; see forward_pass.h.
#include <cstring>

#include "model/forward_pass.h"
#include "model/gated_product.h"

namespace quire::model {

using kernels::Activations;

void ForwardPass::ffn_block(int32_t layer) {
  const LayerWeights& w = w_.layers[static_cast<size_t>(layer)];
  const bool experts = c_.layers[static_cast<size_t>(layer)].experts;
  Activations& x = c_.residual == Residual::kSequential ? s_.normed : s_.ffn_normed;
  if (c_.residual == Residual::kSequential) {
    const FfnWeights& first = experts ? w.experts.shared : w.ffn;
    norm_and_quantize(w.ffn_norm, x, {&first.gate.matrix, &first.up.matrix});
  }
  if (experts) return expert_ffn(w, x);
  dense_ffn(w, x);
}

void ForwardPass::dense_ffn(const LayerWeights& w, Activations& x) {
  if (suits_gated_product(w.ffn, c_.activation, policy_, batch_.num_rows())) {
    gate_up_and_activate(w.ffn, x);
  } else {
    gate_and_up(w.ffn, x, s_.ffn);
    activate_and_quantize(w.ffn, s_.ffn, forms_for({&w.ffn.down.matrix}, policy_),
                          batch_.num_rows());
  }
  add_product(Step::kDown, w.ffn.down, s_.ffn.activated, w.post_ffn_norm);
}

/// All of it in one step, where no other thread and no later step needs what lies between.
void ForwardPass::gate_up_and_activate(const FfnWeights& w, Activations& x) {
  StepTimer timer = timed(Step::kGateUp);
  count_products(timer, {product(w.gate.matrix, x, nullptr), product(w.up.matrix, x, nullptr)});
  multiply_gated(kernels_, threads_,
                 {.weights = w,
                  .activation = c_.activation,
                  .x = x,
                  .num_rows = batch_.num_rows(),
                  .policy = policy_,
                  .activated = s_.ffn.activated});
}

void ForwardPass::gate_and_up(const FfnWeights& w, Activations& x, FfnScratch& ffn) {
  if (!is_gated(c_.activation)) {
    multiply(Step::kGateUp, {product(w.up.matrix, x, floats(ffn.up))});
    return;
  }
  multiply(Step::kGateUp,
           {product(w.gate.matrix, x, floats(ffn.gate)), product(w.up.matrix, x, floats(ffn.up))});
}

void ForwardPass::activate_and_quantize(const FfnWeights& w, FfnScratch& ffn, QuantizedForms forms,
                                        int32_t rows) {
  const StepTimer timer = timed(Step::kActivate);
  const int64_t size = ffn.activated.cols();
  for_rows(rows, [&](int32_t begin, int32_t end) {
    add_bias(w.gate.bias, floats(ffn.gate), begin, end);
    add_bias(w.up.bias, floats(ffn.up), begin, end);
    for (int64_t row = begin; row < end; ++row) {
      const float* gate = ffn.gate.empty() ? nullptr : floats(ffn.gate) + row * size;
      const float* up = floats(ffn.up) + row * size;
      float* out = ffn.activated.f32() + row * size;
      switch (c_.activation) {
        case FfnActivation::kSwiGlu:
          kernels_.swiglu(gate, up, out, size);
          break;
        case FfnActivation::kGeGluTanh:
          kernels_.geglu_tanh(gate, up, out, size);
          break;
        case FfnActivation::kGeluTanh:
          kernels_.gelu_tanh(up, out, size);
          break;
        case FfnActivation::kGeluErf:
          kernels_.gelu_erf(up, out, size);
          break;
      }
    }
    quantize(kernels_, forms, ffn.activated, begin, end);
  });
}

void ForwardPass::expert_ffn(const LayerWeights& w, Activations& x) {
  const ExpertWeights& e = w.experts;
  const ExpertRoutes routes = route(e, x);
  gather_rows(e, routes, x);
  run_experts(e, routes);
  if (c_.experts.shared_ffn > 0) run_shared_expert(e, x);
  sum_experts(routes);
  add_branch(w.post_ffn_norm);
}

/// Each row's softmax over all experts, and those that it takes.
ExpertRoutes ForwardPass::route(const ExpertWeights& e, Activations& x) {
  float* shares = floats(s_.experts.shares);
  // The router is small and what it decides is not smooth: it always meets f32 activations.
  kernels::MatmulArgs logits = product(e.router, x, shares);
  logits.policy = kernels::ActivationPolicy::kF32;
  multiply(Step::kExperts, {logits});
  std::vector<ExpertChoice> choices;
  for (int64_t row = 0; row < batch_.num_rows(); ++row) {
    float* own = shares + row * c_.experts.count;
    kernels_.softmax(own, c_.experts.count);
    const auto chosen = choose_experts({own, static_cast<size_t>(c_.experts.count)}, c_.experts);
    choices.insert(choices.end(), chosen.begin(), chosen.end());
  }
  return sort_by_expert(std::move(choices), c_.experts);
}

/// What the experts' matrices `which` need, which may be of several types.
QuantizedForms ForwardPass::expert_forms(const ExpertWeights& e,
                                         std::initializer_list<Linear FfnWeights::*> which) const {
  QuantizedForms forms;
  for (const FfnWeights& expert : e.experts) {
    for (const auto matrix : which) {
      const QuantizedForms own = forms_for({&(expert.*matrix).matrix}, policy_);
      forms = {.per_32 = forms.per_32 || own.per_32, .per_256 = forms.per_256 || own.per_256};
    }
  }
  return forms;
}

/// Copies each expert's rows side by side.
void ForwardPass::gather_rows(const ExpertWeights& e, const ExpertRoutes& routes, Activations& x) {
  const QuantizedForms forms = expert_forms(e, {&FfnWeights::gate, &FfnWeights::up});
  Activations& rows = s_.experts.rows;
  const StepTimer timer = timed(Step::kNorm);
  for_rows(routes.num_pairs(), [&](int32_t begin, int32_t end) {
    for (int32_t pair = begin; pair < end; ++pair) {
      const int64_t row = routes.rows[static_cast<size_t>(pair)];
      std::memcpy(rows.f32() + int64_t{pair} * c_.hidden, x.f32() + row * c_.hidden,
                  static_cast<size_t>(c_.hidden) * sizeof(float));
    }
    quantize(kernels_, forms, rows, begin, end);
  });
}

/// What each expert says of its rows, into `results`.
void ForwardPass::run_experts(const ExpertWeights& e, const ExpertRoutes& routes) {
  ExpertScratch& s = s_.experts;
  std::vector<kernels::MatmulArgs> first;
  std::vector<kernels::MatmulArgs> second;
  for (int32_t i = 0; i < c_.experts.count; ++i) {
    const int32_t pairs = routes.pairs_of(i);
    if (pairs == 0) continue;
    const FfnWeights& expert = e.experts[static_cast<size_t>(i)];
    const int64_t at = routes.first_pair[static_cast<size_t>(i)];
    const auto add = [&](std::vector<kernels::MatmulArgs>& products,
                         const kernels::WeightMatrix& weights, Activations& x, HugeBuffer& out) {
      products.push_back(product(weights, x, floats(out) + at * weights.rows()));
      products.back().x = x.view(at, pairs);
    };
    add(first, expert.gate.matrix, s.rows, s.ffn.gate);
    add(first, expert.up.matrix, s.rows, s.ffn.up);
    add(second, expert.down.matrix, s.ffn.activated, s.results);
  }
  multiply(Step::kExperts, first);
  activate_and_quantize(e.experts.front(), s.ffn, expert_forms(e, {&FfnWeights::down}),
                        routes.num_pairs());
  multiply(Step::kExperts, second);
}

void ForwardPass::run_shared_expert(const ExpertWeights& e, Activations& x) {
  ExpertScratch& s = s_.experts;
  gate_and_up(e.shared, x, s.shared);
  activate_and_quantize(e.shared, s.shared, forms_for({&e.shared.down.matrix}, policy_),
                        batch_.num_rows());
  kernels::MatmulArgs logit = product(e.shared_switch, x, floats(s.switches));
  logit.policy = kernels::ActivationPolicy::kF32;
  multiply(Step::kExperts,
           {product(e.shared.down.matrix, s.shared.activated, floats(s.shared_result)), logit});
  kernels_.sigmoid(floats(s.switches), batch_.num_rows());
}

/// Into the branch buffer: experts ascending, then the shared one.
void ForwardPass::sum_experts(const ExpertRoutes& routes) {
  ExpertScratch& s = s_.experts;
  const int64_t hidden = c_.hidden;
  const StepTimer timer = timed(Step::kNorm);
  for_rows(batch_.num_rows(), [&](int32_t begin, int32_t end) {
    for (int64_t row = begin; row < end; ++row) {
      float* out = floats(s_.branch) + row * hidden;
      std::memset(out, 0, static_cast<size_t>(hidden) * sizeof(float));
      for (int64_t i = 0; i < c_.experts.per_token; ++i) {
        const auto choice = static_cast<size_t>(row * c_.experts.per_token + i);
        const float* result = floats(s.results) + int64_t{routes.places[choice]} * hidden;
        kernels_.add_scaled(result, routes.choices[choice].share, out, hidden);
      }
      if (c_.experts.shared_ffn == 0) continue;
      kernels_.add_scaled(floats(s.shared_result) + row * hidden, floats(s.switches)[row], out,
                          hidden);
    }
  });
}

}  // namespace quire::model
