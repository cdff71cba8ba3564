// architecture.h: a description of one family of models: where its numbers and tensors stand in
// files.
//
// To add a family, write one file in model/architectures/ that defines such a description and list
// it in architecture.cc; the forward pass, the loader and law 1's tests come with it. Descriptions
// are constants; functions are pure.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/model_files.h"
#include "model/config.h"

namespace quire::model {

/// What a tensor is for. The first three stand once, the others in every layer.
enum class TensorRole : uint8_t {
  kEmbedding,          // [vocab, hidden]
  kOutputNorm,         // [hidden]
  kHead,               // [vocab, hidden]
  kAttentionNorm,      // [hidden]
  kQuery,              // [heads * head_dim, hidden]
  kKey,                // [kv_heads * head_dim, hidden]
  kValue,              // [kv_heads * head_dim, hidden]
  kQueryNorm,          // [head_dim]
  kKeyNorm,            // [head_dim]
  kAttentionOut,       // [hidden, heads * head_dim]
  kPostAttentionNorm,  // [hidden]
  kFfnNorm,            // [hidden]
  kGate,               // [ffn, hidden]
  kUp,                 // [ffn, hidden]
  kDown,               // [hidden, ffn]
  kPostFfnNorm,        // [hidden]
};

/// Names of one tensor, without what numbers the layer: GGUF writes "blk.N." + gguf + ".weight",
/// Hugging Face PREFIX + "layers.N." + hf + ".weight".
struct TensorName {
  TensorRole role;
  std::string_view gguf;
  std::string_view hf;
};

struct Architecture {
  std::string_view name;                       // general.architecture of GGUF
  std::span<const std::string_view> hf_types;  // model_type of config.json
  Result<ModelConfig> (*from_gguf)(const formats::GgufMetadata&);
  Result<ModelConfig> (*from_hf)(const formats::Json&);
  std::span<const TensorName> layer_tensors;
  bool gguf_permutes_qk;   // GGUF stores q and k rows for interleaved rotation
  bool hf_norms_omit_one;  // Hugging Face stores norm weights w with 1 + w meant
};

/// All that Quire knows.
std::span<const Architecture* const> architectures();

/// The description and the numbers of these files, or one sentence that names what is unknown or
/// contradictory (an unknown architecture with the list of those known).
struct DescribedModel {
  const Architecture* architecture;
  ModelConfig config;
};
Result<DescribedModel> describe(const formats::ModelFiles& files);

}  // namespace quire::model
