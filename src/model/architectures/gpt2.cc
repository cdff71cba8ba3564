// gpt2 and starcoder (GPTBigCode): LayerNorm, learned positions, GELU, biases everywhere. StarCoder
// has one kv head. // Radford et al. 2019; arXiv:2305.06161
#include <fmt/format.h>

#include <array>

#include "model/architectures/common.h"
#include "model/architectures/descriptions.h"

namespace quire::model {
namespace {

using enum TensorRole;

constexpr std::array<std::string_view, 1> kGpt2Types = {"gpt2"};
constexpr std::array<std::string_view, 1> kStarcoderTypes = {"gpt_bigcode"};

/// GPT-2's folders hold matrices as [in, out]; StarCoder's, if it has many kv heads, each head's q,
/// k and v together.
template <HfOrder kMatrix, HfOrder kFused>
constexpr std::array<TensorName, 6> kTensors = {{
    {kAttentionNorm, "attn_norm", "ln_1"},
    {kQueryKeyValue, "attn_qkv", "attn.c_attn", Bias::kAlways, kFused},
    {kAttentionOut, "attn_output", "attn.c_proj", Bias::kAlways, kMatrix},
    {kFfnNorm, "ffn_norm", "ln_2"},
    {kUp, "ffn_up", "mlp.c_fc", Bias::kAlways, kMatrix},
    {kDown, "ffn_down", "mlp.c_proj", Bias::kAlways, kMatrix},
}};
constexpr auto kGpt2Tensors = kTensors<HfOrder::kTransposed, HfOrder::kTransposed>;
constexpr auto kStarcoderTensors = kTensors<HfOrder::kSame, HfOrder::kByKvHead>;

constexpr HfNames kNames = {.embedding = "wte", .positions = "wpe", .norm = "ln_f", .layers = "h"};
constexpr std::array<std::string_view, 2> kMasks = {".attn.bias", ".attn.masked_bias"};

ModelConfig completed(ModelConfig c) {
  c.norm = NormKind::kLayer;
  c.activation = FfnActivation::kGeluTanh;
  c.learned_positions = true;
  return with_unrotated_layers(std::move(c));
}

Result<ModelConfig> from_gguf(const formats::ModelFiles& files, std::string_view architecture) {
  const GgufKeys keys(*files.gguf(), architecture);
  QUIRE_TRY(ModelConfig c, keys.common(NormKind::kLayer));
  return completed(std::move(c));
}

Result<ModelConfig> gpt2_from_gguf(const formats::ModelFiles& files) {
  return from_gguf(files, "gpt2");
}

Result<ModelConfig> starcoder_from_gguf(const formats::ModelFiles& files) {
  return from_gguf(files, "starcoder");
}

Result<ModelConfig> from_hf(const HfConfig& config, std::string_view architecture) {
  QUIRE_TRY_VOID(config.expect_flag("scale_attn_weights", true));
  QUIRE_TRY_VOID(config.expect_flag("scale_attn_by_inverse_layer_idx", false));
  QUIRE_TRY_VOID(config.expect_flag("add_cross_attention", false));
  ModelConfig c;
  c.architecture = architecture;
  QUIRE_TRY(c.num_layers, config.require_int("n_layer"));
  QUIRE_TRY(c.hidden, config.require_int("n_embd"));
  QUIRE_TRY(c.num_heads, config.require_int("n_head"));
  QUIRE_TRY(c.vocab, config.require_int("vocab_size"));
  QUIRE_TRY(const int32_t context, config.int_or("n_ctx", 1024));
  QUIRE_TRY(c.context, config.int_or("n_positions", context));
  if (c.hidden < 1 || c.hidden > 1 << 20 || c.num_heads < 1) {
    return Error{
        ErrorCode::kBadFile,
        fmt::format("config.json: n_embd {} and n_head {} are no model's", c.hidden, c.num_heads)};
  }
  QUIRE_TRY(c.ffn, config.int_or("n_inner", 4 * c.hidden));
  QUIRE_TRY(const double eps, config.number_or("layer_norm_epsilon", 1e-5));
  QUIRE_TRY(c.tied_head, config.bool_or("tie_word_embeddings", true));
  c.norm_eps = static_cast<float>(eps);
  c.num_kv_heads = c.num_heads;
  c.head_dim = c.hidden / c.num_heads;
  return completed(std::move(c));
}

Result<ModelConfig> gpt2_from_hf(const formats::Json& json) {
  const HfConfig config(json);
  QUIRE_TRY_VOID(config.expect_text("activation_function", "gelu_new"));
  return from_hf(config, "gpt2");
}

Result<ModelConfig> starcoder_from_hf(const formats::Json& json) {
  const HfConfig config(json);
  QUIRE_TRY_VOID(config.expect_text("activation_function", "gelu_pytorch_tanh"));
  QUIRE_TRY(ModelConfig c, from_hf(config, "starcoder"));
  QUIRE_TRY(const bool multi_query, config.bool_or("multi_query", true));
  if (multi_query) c.num_kv_heads = 1;
  return c;
}

}  // namespace

const Architecture kGpt2 = {.name = "gpt2",
                            .hf_types = kGpt2Types,
                            .from_gguf = gpt2_from_gguf,
                            .from_hf = gpt2_from_hf,
                            .layer_tensors = kGpt2Tensors,
                            .hf_names = kNames,
                            .hf_ignored = kMasks};

const Architecture kStarcoder = {.name = "starcoder",
                                 .hf_types = kStarcoderTypes,
                                 .from_gguf = starcoder_from_gguf,
                                 .from_hf = starcoder_from_hf,
                                 .layer_tensors = kStarcoderTensors,
                                 .hf_names = kNames,
                                 .hf_ignored = kMasks};

}  // namespace quire::model
