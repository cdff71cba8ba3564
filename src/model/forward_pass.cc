#include "model/forward_pass.h"

#include <cstring>

#include "model/wanted_rows.h"

namespace quire::model {

using kernels::Activations;
using kernels::WeightMatrix;

Result<void> ForwardPass::run(std::span<float> logits) {
  prepare();
  embed();
  for (int32_t layer = 0; layer + 1 < c_.num_layers; ++layer) {
    QUIRE_TRY_VOID(read_back(layer));
    run_layer(layer);
  }
  QUIRE_TRY_VOID(read_back(c_.num_layers - 1));
  run_last_layer(logits);
  return {};
}

bool ForwardPass::run_some(PausedPass& pass, const std::function<bool()>& goes_on,
                           std::span<float> logits) {
  prepare();
  const size_t numbers = static_cast<size_t>(batch_.num_rows()) * static_cast<size_t>(c_.hidden);
  if (pass.next_layer == 0) {
    embed();
  } else {
    std::memcpy(stream(), pass.stream.data(), numbers * sizeof(float));
  }
  do {
    if (pass.next_layer + 1 == c_.num_layers) {
      run_last_layer(logits);
      return true;
    }
    run_layer(pass.next_layer++);
  } while (goes_on());
  // All that one layer leaves to the next; the rest of the scratch is anybody's.
  pass.stream.assign(stream(), stream() + numbers);
  return false;
}

/// What does not depend on the layer.
void ForwardPass::prepare() {
  find_positions();
  prepare_rotations();
  plan_attentions();
}

void ForwardPass::enter(int32_t layer) {
  group_ = places_[static_cast<size_t>(layer)].group;
}

void ForwardPass::run_layer(int32_t layer) {
  enter(layer);
  store_keys_and_values(layer);
  attention_block(layer);
  ffn_block(layer);
  group_ = Profile::kNoGroup;
}

/// All rows leave their keys and values; the rest is computed for those whose logits are wanted.
void ForwardPass::run_last_layer(std::span<float> logits) {
  const int32_t layer = c_.num_layers - 1;
  enter(layer);
  store_keys_and_values(layer);
  const size_t num_wanted = batch_.logit_rows.size();
  if (num_wanted == 0) return;
  // A stream knows its views by the batch's own sequences.
  if (num_wanted == batch_.tokens.size() || batch_.stream != nullptr) return finish(layer, logits);
  const WantedRows wanted = wanted_rows(batch_);
  take_rows(wanted.rows);
  const Batch some = wanted.batch();
  ForwardPass rest = over(some);
  rest.plan_attentions();
  rest.enter(layer);
  rest.finish(layer, logits);
}

void ForwardPass::finish(int32_t layer, std::span<float> logits) {
  attention_block(layer);
  ffn_block(layer);
  group_ = Profile::kNoGroup;
  project_logits(logits);
}

/// Moves these rows, ascending, of the stream and the queries to the front.
void ForwardPass::take_rows(std::span<const int32_t> rows) {
  const auto move = [](float* x, int64_t width, int64_t from, int64_t to) {
    if (from != to) std::memcpy(x + to * width, x + from * width, width * sizeof(float));
  };
  for (size_t i = 0; i < rows.size(); ++i) {
    move(stream(), c_.hidden, rows[i], static_cast<int64_t>(i));
    move(floats(s_.q), c_.q_width(), rows[i], static_cast<int64_t>(i));
  }
}

ForwardPass ForwardPass::over(const Batch& batch) const {
  return {{.config = c_,
           .weights = w_,
           .kernels = kernels_,
           .threads = threads_,
           .places = places_,
           .policy = policy_,
           .max_rows = max_rows_,
           .scratch = s_,
           .profile = profile_},
          batch};
}

/// The spilled pages of this layer, if there are any.
Result<void> ForwardPass::read_back(int32_t layer) {
  if (batch_.stream == nullptr) return {};
  enter(layer);
  const StepTimer timer = timed(Step::kReadBack);
  return batch_.stream->enter(layer);
}

void ForwardPass::find_positions() {
  s_.positions.clear();
  for (const BatchSequence& part : batch_.sequences) {
    for (int32_t i = 0; i < part.num_rows; ++i) s_.positions.push_back(part.first_position + i);
  }
}

void ForwardPass::embed() {
  const StepTimer timer = timed(Step::kEmbed);
  const float scale = c_.embedding_scale;
  for_rows(batch_.num_rows(), [&](int32_t begin, int32_t end) {
    for (int32_t row = begin; row < end; ++row) {
      float* out = stream() + int64_t{row} * c_.hidden;
      const TokenId token = batch_.tokens[static_cast<size_t>(row)];
      kernels_.dequantize_row(w_.embedding, token.value, out);
      if (scale != 1.0f) kernels_.scale(out, scale, c_.hidden);
    }
    if (c_.learned_positions) add_positions(begin, end);
  });
}

/// The branch buffer is free before the first layer.
void ForwardPass::add_positions(int32_t row_begin, int32_t row_end) {
  for (int32_t row = row_begin; row < row_end; ++row) {
    const int64_t at = int64_t{row} * c_.hidden;
    const int32_t position = s_.positions[static_cast<size_t>(row)];
    kernels_.dequantize_row(w_.positions, position, floats(s_.branch) + at);
    kernels_.add(floats(s_.branch) + at, stream() + at, c_.hidden);
  }
}

void ForwardPass::prepare_rotations() {
  const StepTimer timer = timed(Step::kEmbed);
  for (int32_t r = 0; r < static_cast<int32_t>(s_.ropes.size()); ++r) {
    const Rope& rope = s_.ropes[static_cast<size_t>(r)];
    const size_t half = static_cast<size_t>(rope.half());
    for_rows(batch_.num_rows(), [&](int32_t begin, int32_t end) {
      const size_t count = static_cast<size_t>(end - begin);
      const size_t at = static_cast<size_t>(begin) * half;
      rope.angles({s_.positions.data() + begin, count}, {angles(s_.cos, r) + at, count * half},
                  {angles(s_.sin, r) + at, count * half});
    });
  }
}

/// One plan a layer group: its layers share a window.
void ForwardPass::plan_attentions() {
  for (size_t group = 0; group < batch_.sequences.front().groups.size(); ++group) {
    const kernels::PagedKvView& kv = batch_.sequences.front().groups[group];
    plans_.push_back(plan_attention(batch_.sequences, {.num_heads = c_.num_heads,
                                                       .num_kv_heads = c_.num_kv_heads,
                                                       .window_tokens = kv.window,
                                                       .sink_tokens = kv.sinks,
                                                       .num_threads = threads_.num_threads()}));
    seals_.push_back(plan_seals(batch_.sequences, group));
  }
}

void ForwardPass::norm_rows(const NormWeights& norm, const float* x, float* y, int64_t cols,
                            int64_t row_begin, int64_t row_end) const {
  if (norm.empty()) {
    if (x == y) return;
    std::memcpy(y + row_begin * cols, x + row_begin * cols,
                static_cast<size_t>((row_end - row_begin) * cols) * sizeof(float));
  } else if (c_.norm == NormKind::kRms) {
    const kernels::RmsNormArgs args{.x = x,
                                    .x_stride = cols,
                                    .weight = norm.weight.data(),
                                    .eps = c_.norm_eps,
                                    .cols = cols,
                                    .y = y,
                                    .y_stride = cols};
    kernels_.rms_norm(args, row_begin, row_end);
  } else {
    const kernels::LayerNormArgs args{.x = x,
                                      .x_stride = cols,
                                      .weight = norm.weight.data(),
                                      .bias = norm.bias.data(),
                                      .eps = c_.norm_eps,
                                      .cols = cols,
                                      .y = y,
                                      .y_stride = cols};
    kernels_.layer_norm(args, row_begin, row_end);
  }
}

void ForwardPass::norm_and_quantize(const NormWeights& norm, Activations& out,
                                    Consumers consumers) {
  const StepTimer timer = timed(Step::kNorm);
  const QuantizedForms forms = forms_for(consumers, policy_);
  for_rows(batch_.num_rows(), [&](int32_t begin, int32_t end) {
    norm_rows(norm, stream(), out.f32(), c_.hidden, begin, end);
    quantize(kernels_, forms, out, begin, end);
  });
}

void ForwardPass::quantize_rows(Activations& x, Consumers consumers) {
  const QuantizedForms forms = forms_for(consumers, policy_);
  if (forms.none()) return;
  const StepTimer timer = timed(Step::kNorm);
  for_rows(batch_.num_rows(),
           [&](int32_t begin, int32_t end) { quantize(kernels_, forms, x, begin, end); });
}

kernels::MatmulArgs ForwardPass::product(const WeightMatrix& weights, Activations& x, float* out,
                                         kernels::Store store) {
  return {.weights = &weights,
          .x = x.view(batch_.num_rows()),
          .policy = policy_,
          .out = out,
          .out_stride = weights.rows(),
          .store = store};
}

void ForwardPass::count_products(StepTimer& timer, std::span<const kernels::MatmulArgs> products) {
  if (!timer.is_on()) return;
  for (const kernels::MatmulArgs& p : products) {
    const auto weights = static_cast<double>(p.weights->rows() * p.weights->cols());
    timer.add_work(static_cast<double>(p.weights->bytes()),
                   2.0 * weights * static_cast<double>(p.x.num_rows));
  }
}

void ForwardPass::multiply(Step step, std::span<const kernels::MatmulArgs> products) {
  StepTimer timer = timed(step);
  count_products(timer, products);
  matmul_group(kernels_, threads_, products);
}

void ForwardPass::add_bias(const std::vector<float>& bias, float* out, int64_t row_begin,
                           int64_t row_end) const {
  if (bias.empty()) return;
  const auto size = static_cast<int64_t>(bias.size());
  for (int64_t row = row_begin; row < row_end; ++row) {
    kernels_.add(bias.data(), out + row * size, size);
  }
}

void ForwardPass::add_product(Step step, const Linear& weights, Activations& x,
                              const NormWeights& post_norm) {
  const bool straight = post_norm.empty() && weights.bias.empty() && c_.residual_scale == 1.0f;
  if (straight) {
    multiply(step, {product(weights.matrix, x, stream(), kernels::Store::kAdd)});
    return;
  }
  multiply(step, {product(weights.matrix, x, floats(s_.branch))});
  if (!weights.bias.empty()) {
    for_rows(batch_.num_rows(), [&](int32_t begin, int32_t end) {
      add_bias(weights.bias, floats(s_.branch), begin, end);
    });
  }
  add_branch(post_norm);
}

void ForwardPass::add_branch(const NormWeights& post_norm) {
  const StepTimer timer = timed(Step::kNorm);
  float* branch = floats(s_.branch);
  for_rows(batch_.num_rows(), [&](int32_t begin, int32_t end) {
    norm_rows(post_norm, branch, branch, c_.hidden, begin, end);
    const int64_t at = int64_t{begin} * c_.hidden;
    const int64_t count = int64_t{end - begin} * c_.hidden;
    if (c_.residual_scale == 1.0f) {
      kernels_.add(branch + at, stream() + at, count);
    } else {
      kernels_.add_scaled(branch + at, c_.residual_scale, stream() + at, count);
    }
  });
}

void ForwardPass::project_logits(std::span<float> logits) {
  const auto wanted = static_cast<int32_t>(batch_.logit_rows.size());
  if (wanted == 0) return;
  const WeightMatrix& head = w_.output_head();
  const int64_t vocab = head.rows();
  QUIRE_CHECK_LE(static_cast<size_t>(wanted * vocab), logits.size());
  const QuantizedForms forms = forms_for({&head}, policy_);
  for_rows(wanted, [&](int32_t begin, int32_t end) {
    for (int32_t i = begin; i < end; ++i) {
      const int64_t row = batch_.logit_rows[static_cast<size_t>(i)];
      norm_rows(w_.output_norm, stream() + row * c_.hidden,
                s_.normed.f32() + int64_t{i} * c_.hidden, c_.hidden, 0, 1);
    }
    quantize(kernels_, forms, s_.normed, begin, end);
  });
  kernels::MatmulArgs args = product(head, s_.normed, logits.data());
  args.x = s_.normed.view(wanted);
  multiply(Step::kHead, {args});
  if (c_.logit_scale == 1.0f && c_.logit_soft_cap == 0.0f) return;
  for_rows(wanted, [&](int32_t begin, int32_t end) {
    float* rows = logits.data() + begin * vocab;
    const int64_t count = (end - begin) * vocab;
    if (c_.logit_scale != 1.0f) kernels_.scale(rows, c_.logit_scale, count);
    if (c_.logit_soft_cap > 0.0f) kernels_.soft_cap(rows, c_.logit_soft_cap, count);
  });
}

}  // namespace quire::model
