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

/// What a tensor of a layer is for. A fused tensor holds several matrices one after the other.
enum class TensorRole : uint8_t {
  kAttentionNorm,      // [hidden]
  kQuery,              // [heads * head_dim, hidden]
  kKey,                // [kv_heads * head_dim, hidden]
  kValue,              // [kv_heads * head_dim, hidden]
  kQueryKeyValue,      // [(heads + 2 kv_heads) * head_dim, hidden]
  kQueryNorm,          // [head_dim], or [heads * head_dim]: ModelConfig::qk_norm
  kKeyNorm,            // [head_dim], or [kv_heads * head_dim]
  kAttentionOut,       // [hidden, heads * head_dim]
  kPostAttentionNorm,  // [hidden]
  kFfnNorm,            // [hidden]
  kGate,               // [ffn, hidden]
  kUp,                 // [ffn, hidden]
  kGateUp,             // [2 ffn, hidden]
  kDown,               // [hidden, ffn]
  kPostFfnNorm,        // [hidden]
  kRouter,             // [experts, hidden]
  kExpertGate,         // [expert ffn, hidden] each, or [experts, expert ffn, hidden]
  kExpertUp,           // the same
  kExpertDown,         // [hidden, expert ffn] each, or [experts, hidden, expert ffn]
  kSharedGate,         // [shared ffn, hidden]
  kSharedUp,           // [shared ffn, hidden]
  kSharedDown,         // [hidden, shared ffn]
  kSharedSwitch,       // [hidden] or [1, hidden]
};

/// Whether a matrix has a bias beside it, named as it is with ".bias" for ".weight".
enum class Bias : uint8_t { kNone, kIfPresent, kAlways };

/// How Hugging Face folders order what GGUF stores as [out, in] and q, k, v one after the other.
enum class HfOrder : uint8_t {
  kSame,
  kTransposed,  // [in, out]
  kByKvHead,    // fused q, k, v: each kv head's queries, its key, its value
};

/// Names of one tensor, without what numbers the layer: GGUF writes "blk.N." + gguf + ".weight",
/// Hugging Face BODY + "layers.N." + hf + ".weight". "{}" stands for the number of an expert. Of
/// several entries with one role, the first that the file has counts.
struct TensorName {
  TensorRole role;
  std::string_view gguf;
  std::string_view hf;
  Bias bias = Bias::kNone;
  HfOrder hf_order = HfOrder::kSame;
};

/// Hugging Face's names of what stands once in a model.
struct HfNames {
  std::string_view embedding = "embed_tokens";
  std::string_view positions = "";
  std::string_view norm = "norm";
  std::string_view layers = "layers";
};

struct Architecture {
  std::string_view name;                       // general.architecture of GGUF
  std::span<const std::string_view> hf_types;  // model_type of config.json
  Result<ModelConfig> (*from_gguf)(const formats::ModelFiles&);
  Result<ModelConfig> (*from_hf)(const formats::Json&);
  std::span<const TensorName> layer_tensors;
  HfNames hf_names = {};
  bool gguf_permutes_qk = false;   // GGUF stores q and k rows for interleaved rotation
  bool hf_norms_omit_one = false;  // Hugging Face stores norm weights w with 1 + w meant
  std::span<const std::string_view> hf_ignored = {};  // ends of tensor names without effect
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
