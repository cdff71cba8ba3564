// falcon: LayerNorm, rotary attention beside the feed-forward block, exact GELU. The old decoder
// (7B) has one kv head and one norm, the new one (40B, 180B) kv groups and two norms, Falcon-RW a
// kv head each and its blocks one after the other. // arXiv:2311.16867
#include <fmt/format.h>

#include <array>

#include "model/architectures/common.h"
#include "model/architectures/descriptions.h"

namespace quire::model {
namespace {

using enum TensorRole;

constexpr std::array<std::string_view, 3> kHfTypes = {"falcon", "RefinedWeb", "RefinedWebModel"};

// GGUF calls attention's norm attn_norm_2 where there are two, and the other one attn_norm.
constexpr std::array<TensorName, 8> kLayerTensors = {{
    {kAttentionNorm, "attn_norm_2", "ln_attn"},
    {kAttentionNorm, "attn_norm", "input_layernorm"},
    {kQueryKeyValue, "attn_qkv", "self_attention.query_key_value", Bias::kIfPresent,
     HfOrder::kByKvHead},
    {kAttentionOut, "attn_output", "self_attention.dense", Bias::kIfPresent},
    {kFfnNorm, "attn_norm", "ln_mlp"},
    {kFfnNorm, "ffn_norm", "post_attention_layernorm"},
    {kUp, "ffn_up", "mlp.dense_h_to_4h", Bias::kIfPresent},
    {kDown, "ffn_down", "mlp.dense_4h_to_h", Bias::kIfPresent},
}};

constexpr HfNames kNames = {
    .embedding = "word_embeddings", .positions = "", .norm = "ln_f", .layers = "h"};

ModelConfig completed(ModelConfig c, RopeConfig rope) {
  c.norm = NormKind::kLayer;
  c.activation = FfnActivation::kGeluErf;
  return with_uniform_layers(std::move(c), std::move(rope));
}

Result<ModelConfig> from_gguf(const formats::ModelFiles& files) {
  const GgufKeys keys(*files.gguf(), "falcon");
  QUIRE_TRY(ModelConfig c, keys.common(NormKind::kLayer));
  QUIRE_TRY(RopeConfig rope, keys.rope(c.head_dim));
  const bool two_norms = files.find("blk.0.attn_norm_2.weight") != nullptr;
  c.residual = two_norms ? Residual::kParallel : Residual::kParallelOneNorm;
  return completed(std::move(c), std::move(rope));
}

/// Files of 2023 spell some numbers otherwise.
Result<int32_t> renamed_int(const HfConfig& config, std::string_view key, std::string_view old) {
  if (config.find(key) == nullptr && config.find(old) != nullptr) return config.require_int(old);
  return config.require_int(key);
}

Result<int32_t> kv_heads(const HfConfig& config, bool new_decoder, int32_t heads) {
  if (new_decoder) {
    QUIRE_TRY(const int32_t old, config.int_or("n_head_kv", heads));
    return config.int_or("num_kv_heads", old);
  }
  // The old decoder does not look at num_kv_heads.
  QUIRE_TRY(const bool multi_query, config.bool_or("multi_query", true));
  return multi_query ? 1 : heads;
}

Result<Residual> residual_of(const HfConfig& config, bool new_decoder) {
  QUIRE_TRY(const bool parallel, config.bool_or("parallel_attn", true));
  if (!new_decoder && !parallel) return Residual::kSequential;
  QUIRE_TRY(const int32_t norms, config.int_or("num_ln_in_parallel_attn", new_decoder ? 2 : 1));
  return new_decoder && norms == 2 ? Residual::kParallel : Residual::kParallelOneNorm;
}

Result<ModelConfig> from_hf(const formats::Json& json) {
  const HfConfig config(json);
  QUIRE_TRY_VOID(config.expect_flag("alibi", false));
  QUIRE_TRY_VOID(config.expect_text("activation", "gelu"));
  ModelConfig c;
  c.architecture = "falcon";
  QUIRE_TRY(c.num_layers, renamed_int(config, "num_hidden_layers", "n_layer"));
  QUIRE_TRY(c.num_heads, renamed_int(config, "num_attention_heads", "n_head"));
  QUIRE_TRY(c.hidden, renamed_int(config, "hidden_size", "n_embed"));
  QUIRE_TRY(c.vocab, config.require_int("vocab_size"));
  QUIRE_TRY(c.context, config.int_or("max_position_embeddings", 2048));
  if (c.hidden < 1 || c.hidden > 1 << 20 || c.num_heads < 1) {
    return Error{
        ErrorCode::kBadFile,
        fmt::format("config.json: hidden_size {} and num_attention_heads {} are no model's",
                    c.hidden, c.num_heads)};
  }
  c.head_dim = c.hidden / c.num_heads;
  QUIRE_TRY(c.ffn, config.int_or("ffn_hidden_size", 4 * c.hidden));
  QUIRE_TRY(const double eps, config.number_or("layer_norm_epsilon", 1e-5));
  c.norm_eps = static_cast<float>(eps);
  QUIRE_TRY(c.tied_head, config.bool_or("tie_word_embeddings", true));
  QUIRE_TRY(const bool new_decoder, config.bool_or("new_decoder_architecture", false));
  QUIRE_TRY(c.num_kv_heads, kv_heads(config, new_decoder, c.num_heads));
  QUIRE_TRY(c.residual, residual_of(config, new_decoder));
  QUIRE_TRY(RopeConfig rope, config.rope("full_attention", c.head_dim));
  return completed(std::move(c), std::move(rope));
}

}  // namespace

const Architecture kFalcon = {.name = "falcon",
                              .hf_types = kHfTypes,
                              .from_gguf = from_gguf,
                              .from_hf = from_hf,
                              .layer_tensors = kLayerTensors,
                              .hf_names = kNames};

}  // namespace quire::model
