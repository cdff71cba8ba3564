#include "plan/weight_types.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

#include "base/check.h"
#include "base/integer_math.h"
#include "kernels/panel_layout.h"
#include "kernels/weight_matrix.h"

namespace quire::plan {
namespace {

constexpr std::array kTypes = {
    StoredType{"f32", 1, 4},
    StoredType{"f16", 1, 2},
    StoredType{"bf16", 1, 2},
    StoredType{"q8_0", 32, 34},
    StoredType{"q5_1", 32, 24},
    StoredType{"q5_0", 32, 22},
    StoredType{"q4_1", 32, 20},
    StoredType{"q4_0", 32, 18},
    StoredType{"iq4_nl", 32, 18},
    StoredType{"q6_k", 256, 210},
    StoredType{"q5_k", 256, 176},
    StoredType{"q4_k", 256, 144},
    StoredType{"q3_k", 256, 110},
    StoredType{"q2_k", 256, 84},
    StoredType{"iq4_xs", 256, 136},
    StoredType{"iq3_s", 256, 110},
    StoredType{"iq3_xxs", 256, 98},
    StoredType{"iq2_s", 256, 82},
    StoredType{"iq2_xs", 256, 74},
    StoredType{"iq2_xxs", 256, 66},
    StoredType{"iq1_m", 256, 56},
    StoredType{"iq1_s", 256, 50},
    StoredType{"mxfp4", 32, 17},
    StoredType{"fp8", 1, 1},
    // One byte an element; 4 bits with a scale and a zero each 128; NF4 with scales quantized
    // again.
    StoredType{"int8", 1, 1},
    StoredType{"awq", 256, 133},
    StoredType{"nf4", 4096, 2113},
};

constexpr std::array kMixes = {
    WeightMix{"f32", "f32", 0.0},
    WeightMix{"f16", "f16", 0.0},
    WeightMix{"bf16", "bf16", 0.0},
    WeightMix{"q8_0", "q8_0", 0.001355},
    WeightMix{"int8", "int8"},
    WeightMix{"fp8", "fp8"},
    WeightMix{"q6_k", "q6_k", 0.005452},
    WeightMix{"q5_k_m", "q5_k", 0.010762},
    WeightMix{"q5_k_s", "q5_k", 0.016595},
    WeightMix{"q5_1", "q5_1", 0.018045},
    WeightMix{"q5_0", "q5_0", 0.022239},
    WeightMix{"q4_k_m", "q4_k", 0.031273},
    WeightMix{"iq4_nl", "iq4_nl", 0.035742},
    WeightMix{"iq4_xs", "iq4_xs", 0.036334},
    WeightMix{"q4_k_s", "q4_k", 0.043136},
    WeightMix{"q4_1", "q4_1", 0.071683},
    WeightMix{"q4_0", "q4_0", 0.071940},
    WeightMix{"nf4", "nf4"},
    WeightMix{"awq", "awq"},
    WeightMix{"gptq4", "awq"},
    WeightMix{"mxfp4", "mxfp4"},
    WeightMix{"q3_k_l", "q3_k", 0.087176},
    WeightMix{"q3_k_m", "q3_k", 0.101913},
    WeightMix{"iq3_s", "iq3_s", 0.111278},
    WeightMix{"iq3_xxs", "iq3_xxs", 0.183625},
    WeightMix{"q3_k_s", "q3_k", 0.228217},
    WeightMix{"q2_k", "q2_k", 0.445132},
    WeightMix{"iq2_s", "iq2_s", 0.439197},
    WeightMix{"iq2_xs", "iq2_xs", 0.546290},
    WeightMix{"iq2_xxs", "iq2_xxs", 0.812022},
    WeightMix{"iq1_m", "iq1_m", 1.393084},
    WeightMix{"iq1_s", "iq1_s", 2.254554},
};

const StoredType& type_named(std::string_view name) {
  const auto found = std::ranges::find(kTypes, name, &StoredType::name);
  QUIRE_CHECK(found != kTypes.end(), "a weight mix names a type that is not in the table");
  return *found;
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

/// What decides the finer types of a mix.
struct MixContext {
  int64_t num_layers = 0;
  int64_t num_experts = 0;
  int64_t heads_per_kv = 1;
  bool tied_head = false;
};

MixContext context_of(const ModelShape& shape) {
  MixContext c{.num_layers = static_cast<int64_t>(shape.layers.size()), .tied_head = true};
  for (const Weight& w : shape.weights) {
    if (w.role == WeightRole::kHead) c.tied_head = false;
    if (w.role == WeightRole::kDown) c.num_experts = std::max(c.num_experts, w.count);
  }
  for (const LayerCache& layer : shape.layers) {
    if (layer.num_kv_heads == 0) continue;
    c.heads_per_kv = std::max<int64_t>(layer.mha_heads / layer.num_kv_heads, 1);
    break;
  }
  return c;
}

/// The first and last eighth of the layers, and every third between.
bool deserves_more_bits(int64_t layer, int64_t layers) {
  const int64_t eighth = layers / 8;
  return layer < eighth || layer >= 7 * eighth || (layer - eighth) % 3 == 2;
}

bool is_iq_below_4_bits(std::string_view mix) {
  return mix.starts_with("iq1") || mix.starts_with("iq2") || mix.starts_with("iq3");
}

std::string_view head_type(const WeightMix& mix) {
  if (mix.base == "q8_0") return mix.base;
  return is_iq_below_4_bits(mix.name) && mix.name != "iq3_s" ? "q5_k" : "q6_k";
}

std::string_view embedding_type(const WeightMix& mix) {
  if (mix.name == "iq2_s" || mix.name == "iq3_xxs") return "iq3_s";
  if (mix.name.starts_with("iq2") || mix.name.starts_with("iq1")) return "q2_k";
  return mix.base;
}

std::string_view value_type(const WeightMix& mix, int64_t layer, const MixContext& c) {
  if (c.num_experts == 8) return "q8_0";
  if (mix.name == "q2_k" || is_iq_below_4_bits(mix.name)) {
    if (c.heads_per_kv >= 4) return "q4_k";
    return mix.name == "q2_k" ? "q3_k" : mix.base;
  }
  if (mix.name == "q3_k_l") return "q5_k";
  if (mix.name == "q3_k_m") return layer < 2 ? "q5_k" : "q4_k";
  if (mix.name.starts_with("iq4") && c.heads_per_kv >= 4) return "q5_k";
  const bool medium = mix.name == "q4_k_m" || mix.name == "q5_k_m";
  if (medium && deserves_more_bits(layer, c.num_layers)) return "q6_k";
  if (mix.name == "q4_k_s" && layer < 4) return "q5_k";
  return mix.base;
}

std::string_view down_type(const WeightMix& mix, int64_t layer, const MixContext& c) {
  const bool early = layer < c.num_layers / 8;
  if (mix.name == "q2_k") return "q3_k";
  if (mix.name == "q3_k_l") return "q5_k";
  if (mix.name == "q3_k_m") return layer < c.num_layers / 16 ? "q5_k" : "q4_k";
  if (mix.name == "iq3_xxs") return early ? "q4_k" : "q3_k";
  if (mix.name.starts_with("iq4") && early) return "q5_k";
  if (mix.name == "q4_k_s" && early) return "q5_k";
  const bool medium = mix.name == "q4_k_m" || mix.name == "q5_k_m";
  return medium && deserves_more_bits(layer, c.num_layers) ? "q6_k" : mix.base;
}

std::string_view attention_out_type(const WeightMix& mix, const MixContext& c) {
  if (c.num_experts == 8) {
    const bool coarse = mix.base == "q2_k" || mix.base == "q3_k" || mix.base == "q4_k" ||
                        mix.base.starts_with("iq");
    return coarse ? "q5_k" : mix.base;
  }
  if (mix.name == "q2_k") return "q3_k";
  if (mix.name == "q3_k_m") return "q4_k";
  if (mix.name == "q3_k_l") return "q5_k";
  return mix.base;
}

std::string_view fused_type(const WeightMix& mix) {
  if (mix.name == "q3_k_m" || mix.name == "q3_k_l") return "q4_k";
  if (mix.name == "q4_k_m") return "q5_k";
  return mix.name == "q5_k_m" ? "q6_k" : mix.base;
}

bool is_gguf_quantized(const WeightMix& mix) {
  return mix.name.starts_with("q") || mix.name.starts_with("iq");
}

/// Quantizers of Hugging Face leave embedding and head in 16 bits; mxfp4 is for experts only.
std::string_view hf_type(const WeightMix& mix, const Weight& w) {
  const bool outside = w.role == WeightRole::kEmbedding || w.role == WeightRole::kHead;
  const bool spared = mix.name == "mxfp4" && w.count == 1;
  return outside || spared ? "bf16" : mix.base;
}

std::string_view wanted_type(const WeightMix& mix, const Weight& w, const MixContext& c) {
  if (w.role == WeightRole::kSmall) return "f32";
  if (mix.base == "f32" || mix.base == "f16" || mix.base == "bf16") return mix.base;
  if (!is_gguf_quantized(mix)) return hf_type(mix, w);
  switch (w.role) {
    case WeightRole::kHead:
      return head_type(mix);
    case WeightRole::kEmbedding:
      return c.tied_head ? head_type(mix) : embedding_type(mix);
    case WeightRole::kKey:
      return c.num_experts == 8 ? "q8_0" : mix.base;
    case WeightRole::kValue:
      return value_type(mix, w.layer, c);
    case WeightRole::kDown:
      return down_type(mix, w.layer, c);
    case WeightRole::kAttentionOut:
      return attention_out_type(mix, c);
    case WeightRole::kFusedQkv:
      return fused_type(mix);
    default:
      return mix.base;
  }
}

/// A type whose blocks divide the row: K-quants fall back to blocks of 32, those to 16 bits.
const StoredType& fitting_type(std::string_view wanted, int64_t cols) {
  struct Fallback {
    std::string_view from, to;
  };
  constexpr std::array kFallbacks = {Fallback{"q4_k", "q5_0"}, Fallback{"q5_k", "q5_1"},
                                     Fallback{"q6_k", "q8_0"}};
  const StoredType* type = &type_named(wanted);
  if (cols % type->block_elements == 0) return *type;
  const auto fallback = std::ranges::find(kFallbacks, wanted, &Fallback::from);
  type = &type_named(fallback != kFallbacks.end() ? fallback->to : "iq4_nl");
  return cols % type->block_elements == 0 ? *type : type_named("f16");
}

WeightBytes stored_bytes(const StoredType& type, int64_t rows, int64_t cols) {
  if (const auto read = element_type_from_name(type.name)) return matrix_bytes(*read, rows, cols);
  const int64_t bytes = rows * divide_up(cols, type.block_elements) * type.block_bytes;
  return {bytes, bytes};
}

WeightBytes total(const ModelShape& shape, const WeightMix& mix) {
  const MixContext context = context_of(shape);
  WeightBytes sum;
  for (const Weight& w : shape.weights) {
    if (w.role == WeightRole::kSmall) {
      sum.file += w.elements() * 4;
      sum.loaded += w.elements() * 4;
      continue;
    }
    const StoredType& type = fitting_type(wanted_type(mix, w, context), w.cols);
    const WeightBytes one = stored_bytes(type, w.rows, w.cols);
    sum.file += one.file * w.count;
    sum.loaded += one.loaded * w.count;
  }
  return sum;
}

}  // namespace

std::span<const WeightMix> weight_mixes() {
  return kMixes;
}

const WeightMix* find_weight_mix(std::string_view name) {
  std::string lower = lower_case(name);
  if (lower == "fp16" || lower == "float16") lower = "f16";
  if (lower == "fp32" || lower == "float32") lower = "f32";
  if (lower == "bfloat16") lower = "bf16";
  if (lower == "q4_k" || lower == "q5_k" || lower == "q3_k") lower += "_m";
  const auto found = std::ranges::find(kMixes, lower, &WeightMix::name);
  return found == kMixes.end() ? nullptr : &*found;
}

bool runs(const WeightMix& mix) {
  return element_type_from_name(mix.base).has_value();
}

WeightBytes matrix_bytes(ElementType type, int64_t rows, int64_t cols) {
  const ElementTypeInfo& stored = info(type);
  const int64_t blocks = divide_up(cols, stored.block_elements);
  const kernels::PanelBlock panel = kernels::panel_block(type);
  return {.file = rows * blocks * stored.block_bytes,
          .loaded =
              divide_up(rows, kernels::kPanelRows) * divide_up(cols, panel.columns) * panel.bytes};
}

WeightBytes mixed_bytes(const ModelShape& shape, const WeightMix& mix) {
  return total(shape, mix);
}

WeightBytes float_bytes(const ModelShape& shape) {
  const WeightMix* mix = find_weight_mix(shape.float_type);
  return total(shape, mix != nullptr ? *mix : *find_weight_mix("bf16"));
}

}  // namespace quire::plan
