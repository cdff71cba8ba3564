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

/// RMSNorm or LayerNorm; a layer that does without has an empty weight.
struct NormWeights {
  std::vector<float> weight;  // [cols]
  std::vector<float> bias;    // [cols], LayerNorm only
  bool empty() const { return weight.empty(); }
};

/// A matrix and what is added to its product.
struct Linear {
  kernels::WeightMatrix matrix;  // [rows, cols]
  std::vector<float> bias;       // [rows] or empty
};

/// The feed-forward block of one layer, one expert or the shared expert.
struct FfnWeights {
  Linear gate;  // [ffn, hidden]; empty where the activation has no gate
  Linear up;    // [ffn, hidden]
  Linear down;  // [hidden, ffn]
};

struct ExpertWeights {
  kernels::WeightMatrix router;         // [experts, hidden]
  std::vector<FfnWeights> experts;      // [experts]
  FfnWeights shared;                    // empty if the model has no shared expert
  kernels::WeightMatrix shared_switch;  // [1, hidden]: by the sigmoid of what the shared one counts
};

struct LayerWeights {
  NormWeights attention_norm;       // [hidden]
  Linear query;                     // [heads * head_dim, hidden]
  Linear key;                       // [kv_heads * head_dim, hidden]
  Linear value;                     // [kv_heads * head_dim, hidden]
  NormWeights query_norm;           // [head_dim] or [heads * head_dim], see ModelConfig::qk_norm
  NormWeights key_norm;             // [head_dim] or [kv_heads * head_dim]
  Linear attention_out;             // [hidden, heads * head_dim]
  NormWeights post_attention_norm;  // [hidden]
  NormWeights ffn_norm;             // [hidden]
  FfnWeights ffn;                   // of a dense layer
  ExpertWeights experts;            // of a layer with experts
  NormWeights post_ffn_norm;        // [hidden]
};

struct Weights {
  kernels::WeightMatrix embedding;  // [vocab, hidden]
  kernels::WeightMatrix positions;  // [context, hidden]; empty unless positions are learned
  NormWeights output_norm;          // [hidden]
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
                             const LoadProgress& progress, int32_t num_threads = 1);

/// Parameters in the file's tensors, those of a tied head once.
int64_t count_parameters(const formats::ModelFiles& files);

}  // namespace quire::model
