#include "plan/blocks.h"

#include <algorithm>
#include <utility>

#include "base/checked_math.h"

namespace quire::plan {
namespace {

// A thousand times the largest model known: sums of bytes stay below 2^63.
constexpr int64_t kMostParameters = int64_t{1} << 54;
constexpr int64_t kMostStateBytes = int64_t{1} << 40;

int32_t small_int(int64_t value) {
  return static_cast<int32_t>(std::min<int64_t>(value, INT32_MAX));
}

}  // namespace

Result<void> ShapeBuilder::check() const {
  if (!absurd_) return {};
  return Error{ErrorCode::kBadFile,
               "the configuration describes a model larger than 10^16 parameters or with states of "
               "over 1 TiB: one of its numbers is wrong"};
}

void ShapeBuilder::matrix(WeightRole role, int64_t rows, int64_t cols, int64_t count) {
  if (rows == 0 || cols == 0 || count == 0) return;
  const auto plane = checked_mul(rows, cols);
  const auto elements = plane ? checked_mul(*plane, count) : std::nullopt;
  const auto total = elements ? checked_add(total_, *elements) : std::nullopt;
  if (!total || *total > kMostParameters) {
    absurd_ = true;
    return;
  }
  total_ = *total;
  const int32_t layer = outside_ ? -1 : static_cast<int32_t>(shape_.layers.size()) - 1;
  shape_.weights.push_back(
      {.role = role, .rows = rows, .cols = cols, .count = count, .layer = layer});
}

void ShapeBuilder::small(int64_t elements) {
  matrix(WeightRole::kSmall, 1, elements);
}

void ShapeBuilder::add_state(int64_t f32_elements, int64_t f16_elements) {
  const int64_t bytes = f32_elements * 4 + f16_elements * 2;
  if (f32_elements > kMostStateBytes || f16_elements > kMostStateBytes) {
    absurd_ = true;
    return;
  }
  cache().state_bytes += bytes;
}

void ShapeBuilder::attention(const AttentionPart& p) {
  const int64_t q = p.heads * p.key_dim;
  const int64_t k = p.kv_heads * p.key_dim;
  const int64_t v = p.kv_heads * p.value_dim;
  const int64_t q_rows = p.query_gated ? 2 * q : q;
  if (p.fused) {
    matrix(WeightRole::kFusedQkv, q_rows + k + v, p.hidden);
  } else {
    matrix(WeightRole::kQuery, q_rows, p.hidden);
    if (!p.shares_kv) matrix(WeightRole::kKey, k, p.hidden);
    if (!p.shares_kv && !p.value_is_key) matrix(WeightRole::kValue, v, p.hidden);
  }
  if (p.query_bias) small(q_rows + (p.shares_kv ? 0 : k + v));
  matrix(WeightRole::kAttentionOut, p.hidden, p.heads * p.value_dim);
  if (p.out_bias) small(p.hidden);
  small(p.norm_elements);
  small(p.small_elements);
  if (p.shares_kv) return;
  LayerCache& c = cache();
  c.num_kv_heads = small_int(p.kv_heads);
  c.key_dim = small_int(p.key_dim);
  c.value_dim = small_int(p.value_dim);
  c.window_tokens = small_int(p.window);
  c.mha_heads = small_int(p.heads);
  c.mha_key_dim = c.key_dim;
  c.mha_value_dim = c.value_dim;
}

void ShapeBuilder::latent_attention(const LatentPart& p) {
  const int64_t query_dim = p.heads * (p.nope_dim + p.rope_dim);
  if (p.query_rank > 0) {
    matrix(WeightRole::kOtherMatrix, p.query_rank, p.hidden);
    small(p.query_rank);
    matrix(WeightRole::kQuery, query_dim, p.query_rank);
  } else {
    matrix(WeightRole::kQuery, query_dim, p.hidden);
  }
  matrix(WeightRole::kOtherMatrix, p.kv_rank + p.rope_dim, p.hidden);
  small(p.kv_rank);
  matrix(WeightRole::kOtherMatrix, p.heads * (p.nope_dim + p.value_dim), p.kv_rank);
  matrix(WeightRole::kAttentionOut, p.hidden, p.heads * p.value_dim);
  small(p.bias_elements);
  LayerCache& c = cache();
  c.num_kv_heads = 1;
  c.key_dim = small_int(p.kv_rank + p.rope_dim);
  c.value_dim = 0;
  c.mha_heads = small_int(p.heads);
  c.mha_key_dim = small_int(p.nope_dim + p.rope_dim);
  c.mha_value_dim = small_int(p.value_dim);
}

void ShapeBuilder::widen_latent(int64_t dims) {
  cache().key_dim = small_int(cache().key_dim + dims);
}

void ShapeBuilder::mamba(const MambaPart& p) {
  matrix(WeightRole::kOtherMatrix, 2 * p.inner, p.hidden);
  if (p.proj_bias) small(2 * p.inner + p.hidden);
  small(p.inner * p.conv);
  if (p.conv_bias) small(p.inner);
  matrix(WeightRole::kOtherMatrix, p.dt_rank + 2 * p.state, p.inner);
  matrix(WeightRole::kOtherMatrix, p.inner, p.dt_rank);
  small(p.inner);            // bias of dt
  small(p.inner * p.state);  // A
  small(p.inner);            // D
  if (p.inner_norms) small(p.dt_rank + 2 * p.state);
  matrix(WeightRole::kOtherMatrix, p.hidden, p.inner);
  add_state(p.inner * p.state, p.inner * (p.conv - 1));
}

void ShapeBuilder::mamba2(const Mamba2Part& p) {
  const int64_t inner = p.heads * p.head_dim;
  const int64_t convolved = inner + 2 * p.groups * p.state;
  matrix(WeightRole::kOtherMatrix, inner + convolved + p.heads, p.hidden);
  if (p.proj_bias) small(inner + convolved + p.heads + p.hidden);
  small(convolved * p.conv);
  if (p.conv_bias) small(convolved);
  small(3 * p.heads);  // A, D and the bias of dt
  if (p.gated_norm) small(inner);
  matrix(WeightRole::kOtherMatrix, p.hidden, inner);
  add_state(inner * p.state, convolved * (p.conv - 1));
}

void ShapeBuilder::delta_net(const DeltaNetPart& p) {
  const int64_t keys = p.key_heads * p.key_dim;
  const int64_t values = p.value_heads * p.value_dim;
  matrix(WeightRole::kOtherMatrix, 2 * keys + 2 * values, p.hidden);  // q, k, v and the gate z
  matrix(WeightRole::kSmall, 2 * p.value_heads, p.hidden);            // beta and alpha
  small((2 * keys + values) * p.conv);
  small(2 * p.value_heads + p.value_dim);  // A, the bias of dt, the output norm
  matrix(WeightRole::kOtherMatrix, p.hidden, values);
  add_state(p.value_heads * p.key_dim * p.value_dim, (2 * keys + values) * (p.conv - 1));
}

void ShapeBuilder::kimi_delta(const KimiDeltaPart& p) {
  const int64_t width = p.heads * p.head_dim;
  matrix(WeightRole::kQuery, width, p.hidden);
  matrix(WeightRole::kKey, width, p.hidden);
  matrix(WeightRole::kValue, width, p.hidden);
  small(3 * width * p.conv);
  for (int gate = 0; gate < 2; ++gate) {
    matrix(WeightRole::kOtherMatrix, p.head_dim, p.hidden);
    matrix(WeightRole::kOtherMatrix, width, p.head_dim);
  }
  matrix(WeightRole::kSmall, p.heads, p.hidden);
  small(width + p.heads + p.head_dim);
  matrix(WeightRole::kAttentionOut, p.hidden, width);
  add_state(width * p.head_dim, 3 * width * (p.conv - 1));
}

void ShapeBuilder::short_convolution(int64_t hidden, int64_t kernel, bool bias) {
  matrix(WeightRole::kOtherMatrix, 3 * hidden, hidden);
  small(hidden * kernel);
  matrix(WeightRole::kOtherMatrix, hidden, hidden);
  if (bias) small(5 * hidden);
  add_state(0, hidden * (kernel - 1));
}

void ShapeBuilder::lightning_attention(int64_t hidden, int64_t heads, int64_t head_dim) {
  const int64_t width = heads * head_dim;
  matrix(WeightRole::kFusedQkv, 3 * width, hidden);
  matrix(WeightRole::kOtherMatrix, width, hidden);  // the output gate
  small(width);
  matrix(WeightRole::kAttentionOut, hidden, width);
  add_state(width * head_dim, 0);
}

void ShapeBuilder::recurrent_unit(int64_t hidden, int64_t width, int64_t heads, int64_t conv) {
  matrix(WeightRole::kOtherMatrix, width, hidden, 2);
  small(2 * width);
  small(width * conv + width);
  small(width);                                               // the recurrence itself
  matrix(WeightRole::kOtherMatrix, width, width / heads, 2);  // block-diagonal gates
  small(2 * width);
  matrix(WeightRole::kOtherMatrix, hidden, width);
  small(hidden);
  add_state(width, width * (conv - 1));
}

void ShapeBuilder::ffn(const FfnPart& p) {
  if (p.gated) matrix(WeightRole::kGate, p.width, p.hidden);
  matrix(WeightRole::kUp, p.width, p.hidden);
  matrix(WeightRole::kDown, p.hidden, p.width);
  if (p.bias) small((p.gated ? 2 : 1) * p.width + p.hidden);
}

void ShapeBuilder::experts(const ExpertsPart& p) {
  matrix(WeightRole::kSmall, p.experts, p.hidden);
  if (p.router_bias) small(p.experts);
  if (p.gated) matrix(WeightRole::kGate, p.width, p.hidden, p.experts);
  matrix(WeightRole::kUp, p.width, p.hidden, p.experts);
  matrix(WeightRole::kDown, p.hidden, p.width, p.experts);
  if (p.bias) {
    matrix(WeightRole::kSmall, 1, (p.gated ? 2 : 1) * p.width + p.hidden, p.experts);
  }
  if (p.shared_width == 0) return;
  ffn({.hidden = p.hidden, .width = p.shared_width, .gated = p.gated, .bias = p.bias});
  if (p.shared_gate) small(p.hidden);
}

}  // namespace quire::plan
