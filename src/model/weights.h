// weights.h: all weights of a model in the layout the kernels read.
//
// Matrices stay in the precision of the file; a tied head is stored once, as the embedding. Loading
// takes tensors one by one and lets the file's pages go as it does, so that memory is not doubled.
// Immutable after loading; any thread may read.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "formats/model_files.h"
#include "kernels/weight_matrix.h"
#include "model/architecture.h"

namespace quire::model {

struct LayerWeights {
  std::vector<float> attention_norm;       // [hidden]
  kernels::WeightMatrix query;             // [heads * head_dim, hidden]
  kernels::WeightMatrix key;               // [kv_heads * head_dim, hidden]
  kernels::WeightMatrix value;             // [kv_heads * head_dim, hidden]
  std::vector<float> query_norm;           // [head_dim] or empty
  std::vector<float> key_norm;             // [head_dim] or empty
  kernels::WeightMatrix attention_out;     // [hidden, heads * head_dim]
  std::vector<float> post_attention_norm;  // [hidden] or empty
  std::vector<float> ffn_norm;             // [hidden]
  kernels::WeightMatrix gate;              // [ffn, hidden]
  kernels::WeightMatrix up;                // [ffn, hidden]
  kernels::WeightMatrix down;              // [hidden, ffn]
  std::vector<float> post_ffn_norm;        // [hidden] or empty
};

struct Weights {
  kernels::WeightMatrix embedding;  // [vocab, hidden]
  std::vector<float> output_norm;   // [hidden]
  kernels::WeightMatrix head;       // [vocab, hidden]; empty if tied
  std::vector<LayerWeights> layers;

  const kernels::WeightMatrix& output_head() const { return head.empty() ? embedding : head; }
  /// Bytes of memory that the matrices and norms hold.
  int64_t bytes() const;
};

/// Called after every tensor with the share done, 0 to 1; returns false to stop loading.
using LoadProgress = std::function<bool(double)>;

/// Reads every tensor that the description names. One sentence names a tensor that is missing, has
/// the wrong shape or a type that is not read, or has no place in the description.
Result<Weights> load_weights(const formats::ModelFiles& files, const DescribedModel& model,
                             const LoadProgress& progress);

/// Parameters in the file's tensors, those of a tied head once.
int64_t count_parameters(const formats::ModelFiles& files);

}  // namespace quire::model
