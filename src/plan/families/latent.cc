// Models with multi-head latent attention: DeepSeek V2 and V3, Kimi K2, MiniCPM3, GLM-4.7-Flash.
// They cache one compressed row of kv_lora_rank + qk_rope_head_dim numbers a token and layer,
// without a factor of two for values. // arXiv:2405.04434, arXiv:2412.19437
#include <array>

#include "plan/families.h"
#include "plan/families/common.h"

namespace quire::plan {
namespace {

Result<LatentPart> read_latent(ConfigReader& config, const Sizes& s) {
  LatentPart part{.hidden = s.hidden, .heads = s.heads};
  QUIRE_TRY(part.query_rank, config.get({"q_lora_rank"}, kMaxWidth, 0));
  QUIRE_TRY(part.kv_rank, config.require({"kv_lora_rank"}, kMaxHeadDim));
  QUIRE_TRY(part.nope_dim, config.require({"qk_nope_head_dim"}, kMaxHeadDim));
  QUIRE_TRY(part.rope_dim, config.require({"qk_rope_head_dim"}, kMaxHeadDim));
  QUIRE_TRY(part.value_dim, config.require({"v_head_dim"}, kMaxHeadDim));
  QUIRE_TRY(const bool bias, config.flag({"attention_bias"}, false));
  if (bias) part.bias_elements = part.query_rank + part.kv_rank + part.rope_dim + s.hidden;
  return part;
}

/// The indexer of sparse attention in V3.2: queries from the compressed one, one key of
/// index_head_dim a token, which is cached too.
Result<void> add_indexer(ConfigReader& config, const Sizes& s, const LatentPart& latent,
                         ShapeBuilder& builder) {
  QUIRE_TRY(const int64_t dim, config.get({"index_head_dim"}, kMaxHeadDim, 0));
  if (dim == 0) return {};
  QUIRE_TRY(const int64_t heads, config.require({"index_n_heads"}, kMaxHeads));
  builder.matrix(WeightRole::kOtherMatrix, heads * dim,
                 latent.query_rank > 0 ? latent.query_rank : s.hidden);
  builder.matrix(WeightRole::kOtherMatrix, dim, s.hidden);
  builder.small(2 * dim);
  builder.matrix(WeightRole::kSmall, heads, s.hidden);
  builder.widen_latent(dim);
  return {};
}

Result<ModelShape> read_latent_model(ConfigReader& config, SizeDefaults defaults,
                                     bool balancing_bias) {
  defaults.latent = true;
  QUIRE_TRY(const Sizes s, read_sizes(config, defaults));
  QUIRE_TRY(const LatentPart latent, read_latent(config, s));
  QUIRE_TRY(auto experts, read_experts(config, s));
  if (experts) experts->part.router_bias = balancing_bias;
  ModelShape shape = begin_shape(config, s);
  shape.widths.query = s.heads * (latent.nope_dim + latent.rope_dim);
  shape.widths.key_value = latent.kv_rank + latent.rope_dim;
  shape.widths.head_dim = latent.kv_rank + latent.rope_dim;
  ShapeBuilder builder(shape);
  for (int64_t i = 0; i < s.layers; ++i) {
    builder.open_layer();
    builder.latent_attention(latent);
    QUIRE_TRY_VOID(add_indexer(config, s, latent, builder));
    builder.small(2 * s.hidden);
    feed_forward(builder, experts, static_cast<size_t>(i), {.hidden = s.hidden, .width = s.ffn});
  }
  QUIRE_TRY_VOID(finish_shape(builder, s, s.hidden));
  QUIRE_TRY(const int64_t drafts, config.get_from_zero({"num_nextn_predict_layers"}, 64, 0));
  if (drafts > 0) {
    shape.notes.push_back(
        "the layers that predict further tokens (num_nextn_predict_layers) are "
        "left out: they draft, the model does not need them");
  }
  return shape;
}

Result<ModelShape> read_v2(ConfigReader& config) {
  return read_latent_model(config, {}, false);
}

Result<ModelShape> read_v3(ConfigReader& config) {
  return read_latent_model(config, {}, true);
}

Result<ModelShape> read_minicpm3(ConfigReader& config) {
  return read_latent_model(config, {.tied = true}, false);
}

constexpr std::array kFamilies = {
    Family{"deepseek_v2", read_v2},  Family{"deepseek_v3", read_v3},
    Family{"deepseek_v32", read_v3}, Family{"glm4_moe_lite", read_v3},
    Family{"kimi_k2", read_v3},      Family{"minicpm3", read_minicpm3},
};

}  // namespace

std::span<const Family> latent_families() {
  return kFamilies;
}

}  // namespace quire::plan
