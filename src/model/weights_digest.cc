#include "model/weights_digest.h"

#include <span>

namespace quire::model {
namespace {

// Each struct is taken apart whole: a member that is added to one and forgotten here does not
// compile.

void add(DigestBuilder& builder, const std::vector<float>& numbers) {
  builder.add_number(static_cast<uint64_t>(numbers.size()));
  builder.add(std::as_bytes(std::span(numbers)));
}

void add(DigestBuilder& builder, const kernels::WeightMatrix& matrix) {
  builder.add_number(matrix.type());
  builder.add_number(matrix.rows());
  builder.add_number(matrix.cols());
  for (int64_t p = 0; p < matrix.num_panels(); ++p) {
    builder.add(std::span(matrix.panel(p), static_cast<size_t>(matrix.panel_bytes())));
  }
}

void add(DigestBuilder& builder, const NormWeights& norm) {
  const auto& [weight, bias] = norm;
  add(builder, weight);
  add(builder, bias);
}

void add(DigestBuilder& builder, const Linear& linear) {
  const auto& [matrix, bias] = linear;
  add(builder, matrix);
  add(builder, bias);
}

void add(DigestBuilder& builder, const FfnWeights& ffn) {
  const auto& [gate, up, down] = ffn;
  for (const Linear* linear : {&gate, &up, &down}) add(builder, *linear);
}

void add(DigestBuilder& builder, const ExpertWeights& weights) {
  const auto& [router, experts, shared, shared_switch] = weights;
  add(builder, router);
  builder.add_number(static_cast<uint64_t>(experts.size()));
  for (const FfnWeights& expert : experts) add(builder, expert);
  add(builder, shared);
  add(builder, shared_switch);
}

void add(DigestBuilder& builder, const LayerWeights& layer) {
  const auto& [attention_norm, query, key, value, query_norm, key_norm, attention_out,
               post_attention_norm, ffn_norm, ffn, experts, post_ffn_norm] = layer;
  for (const Linear* linear : {&query, &key, &value, &attention_out}) add(builder, *linear);
  for (const NormWeights* norm :
       {&attention_norm, &query_norm, &key_norm, &post_attention_norm, &ffn_norm, &post_ffn_norm}) {
    add(builder, *norm);
  }
  add(builder, ffn);
  add(builder, experts);
}

}  // namespace

Digest digest(const Weights& weights) {
  const auto& [embedding, positions, output_norm, head, layers] = weights;
  DigestBuilder builder;
  for (const kernels::WeightMatrix* matrix : {&embedding, &positions, &head}) {
    add(builder, *matrix);
  }
  add(builder, output_norm);
  builder.add_number(static_cast<uint64_t>(layers.size()));
  for (const LayerWeights& layer : layers) add(builder, layer);
  return builder.finish();
}

}  // namespace quire::model
