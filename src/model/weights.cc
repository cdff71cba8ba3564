#include "model/weights.h"

namespace quire::model {
namespace {

int64_t bytes_of(const std::vector<float>& numbers) {
  return static_cast<int64_t>(numbers.size() * sizeof(float));
}
int64_t bytes_of(const NormWeights& norm) {
  return bytes_of(norm.weight) + bytes_of(norm.bias);
}
int64_t bytes_of(const Linear& linear) {
  return linear.matrix.bytes() + bytes_of(linear.bias);
}
int64_t bytes_of(const FfnWeights& ffn) {
  return bytes_of(ffn.gate) + bytes_of(ffn.up) + bytes_of(ffn.down);
}

int64_t bytes_of(const ExpertWeights& e) {
  int64_t total = e.router.bytes() + bytes_of(e.shared) + e.shared_switch.bytes();
  for (const FfnWeights& expert : e.experts) total += bytes_of(expert);
  return total;
}

int64_t bytes_of(const LayerWeights& l) {
  int64_t total = bytes_of(l.ffn) + bytes_of(l.experts);
  for (const Linear* linear : {&l.query, &l.key, &l.value, &l.attention_out}) {
    total += bytes_of(*linear);
  }
  for (const NormWeights* norm : {&l.attention_norm, &l.query_norm, &l.key_norm,
                                  &l.post_attention_norm, &l.ffn_norm, &l.post_ffn_norm}) {
    total += bytes_of(*norm);
  }
  return total;
}

}  // namespace

int64_t Weights::bytes() const {
  int64_t total = embedding.bytes() + positions.bytes() + head.bytes() + bytes_of(output_norm);
  for (const LayerWeights& layer : layers) total += bytes_of(layer);
  return total;
}

int64_t count_parameters(const formats::ModelFiles& files) {
  int64_t total = 0;
  for (const formats::TensorInfo& tensor : files.tensors()) {
    if (!tensor.name.starts_with("rope_f")) total += formats::num_elements(tensor);
  }
  return total;
}

}  // namespace quire::model
