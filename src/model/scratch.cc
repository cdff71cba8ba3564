#include "model/scratch.h"

#include <algorithm>

namespace quire::model {
namespace {

Result<HugeBuffer> floats(int64_t count) {
  return HugeBuffer::allocate(static_cast<size_t>(count) * sizeof(float));
}

template <class... Buffers>
int64_t sizes(const Buffers&... buffers) {
  return (static_cast<int64_t>(buffers.size()) + ...);
}

bool has_dense_layer(const ModelConfig& c) {
  return !std::ranges::all_of(c.layers, &LayerConfig::experts);
}

}  // namespace

Result<FfnScratch> FfnScratch::allocate(int64_t rows, int64_t ffn, bool gated) {
  FfnScratch s;
  QUIRE_TRY(s.gate, floats(gated ? rows * ffn : 0));
  QUIRE_TRY(s.up, floats(rows * ffn));
  QUIRE_TRY(s.activated, kernels::Activations::allocate(rows, ffn));
  return s;
}

int64_t FfnScratch::bytes() const {
  return sizes(gate, up) + activated.bytes();
}

Result<ExpertScratch> ExpertScratch::allocate(const ModelConfig& c, int64_t rows) {
  ExpertScratch s;
  const ExpertConfig& e = c.experts;
  if (e.count == 0) return s;
  const int64_t pairs = rows * e.per_token;
  QUIRE_TRY(s.shares, floats(rows * e.count));
  QUIRE_TRY(s.rows, kernels::Activations::allocate(pairs, c.hidden));
  QUIRE_TRY(s.ffn, FfnScratch::allocate(pairs, e.ffn, true));
  QUIRE_TRY(s.results, floats(pairs * c.hidden));
  if (e.shared_ffn == 0) return s;
  QUIRE_TRY(s.shared, FfnScratch::allocate(rows, e.shared_ffn, true));
  QUIRE_TRY(s.shared_result, floats(rows * c.hidden));
  QUIRE_TRY(s.switches, floats(rows));
  return s;
}

int64_t ExpertScratch::bytes() const {
  return sizes(shares, results, shared_result, switches) + rows.bytes() + ffn.bytes() +
         shared.bytes();
}

Result<std::unique_ptr<Scratch>> Scratch::allocate(const ModelConfig& c, int64_t max_rows,
                                                   int64_t window_tokens) {
  auto s = std::make_unique<Scratch>();
  for (const RopeConfig& rope : c.ropes) s->ropes.emplace_back(rope, window_tokens);
  QUIRE_TRY(s->stream, floats(max_rows * c.hidden));
  QUIRE_TRY(s->q, floats(max_rows * c.q_width()));
  QUIRE_TRY(s->k, floats(max_rows * c.kv_width()));
  QUIRE_TRY(s->v, floats(max_rows * c.kv_width()));
  QUIRE_TRY(s->branch, floats(max_rows * c.hidden));
  const auto angles = static_cast<int64_t>(c.ropes.size()) * max_rows * (c.head_dim / 2);
  QUIRE_TRY(s->cos, floats(angles));
  QUIRE_TRY(s->sin, floats(angles));
  QUIRE_TRY(s->normed, kernels::Activations::allocate(max_rows, c.hidden));
  if (c.residual != Residual::kSequential) {
    QUIRE_TRY(s->ffn_normed, kernels::Activations::allocate(max_rows, c.hidden));
  }
  QUIRE_TRY(s->attended, kernels::Activations::allocate(max_rows, c.q_width()));
  if (has_dense_layer(c)) {
    QUIRE_TRY(s->ffn, FfnScratch::allocate(max_rows, c.ffn, is_gated(c.activation)));
  }
  QUIRE_TRY(s->experts, ExpertScratch::allocate(c, max_rows));
  return s;
}

int64_t Scratch::bytes() const {
  return sizes(stream, q, k, v, branch, cos, sin, partials) + normed.bytes() + ffn_normed.bytes() +
         attended.bytes() + ffn.bytes() + experts.bytes();
}

}  // namespace quire::model
