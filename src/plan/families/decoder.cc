// Decoders that differ in traits only: what is a bias, what a norm, where the windows and experts
// are. Facts: the modelling files of Hugging Face transformers and the models' published
// configurations.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "plan/families.h"
#include "plan/families/common.h"

namespace quire::plan {
namespace {

enum class Bias : uint8_t { kNone, kQkv, kQkvAndOut };
enum class QkNorm : uint8_t { kNone, kHeads, kRows, kIfAsked };

struct Traits {
  std::string_view type;
  SizeDefaults sizes = {};
  WindowTraits windows = {};
  int64_t norm_vectors = 1;  // a norm's vectors of hidden: 1 RMS, 2 with a bias, 0 without weights
  int64_t norms = 2;         // a layer
  Bias bias = Bias::kNone;   // unless a key says otherwise
  Bias key_bias = Bias::kQkvAndOut;  // what attention_bias: true stands for
  bool gated = true;
  bool ffn_bias = false;
  QkNorm qk_norm = QkNorm::kNone;
  bool shared_gate = false;     // of experts
  bool balancing_bias = false;  // a balancing term of each expert
  bool sinks = false;
  bool expert_bias = false;
  bool head_bias = false;
  int64_t ffn_extra = 0;  // numbers in the activation
};

constexpr SizeDefaults kTied{.tied = true};
constexpr WindowTraits kQwenWindows{.rule = WindowRule::kQwen};
constexpr WindowTraits kAllWindows{.rule = WindowRule::kAll};

constexpr Traits kTraits[] = {
    {.type = "apertus", .gated = false, .qk_norm = QkNorm::kHeads, .ffn_extra = 2},
    {.type = "arcee", .gated = false},
    {.type = "baichuan"},
    {.type = "cohere", .sizes = kTied, .norms = 1, .qk_norm = QkNorm::kIfAsked},
    {.type = "cohere2",
     .sizes = kTied,
     .windows = {.rule = WindowRule::kPattern, .pattern = 4, .default_window = 4096},
     .norms = 1},
    {.type = "dots1", .qk_norm = QkNorm::kHeads, .balancing_bias = true},
    {.type = "ernie4_5", .sizes = kTied},
    {.type = "ernie4_5_moe", .sizes = kTied, .balancing_bias = true},
    {.type = "exaone"},
    {.type = "exaone4",
     .windows = {.rule = WindowRule::kPattern, .pattern = 4},
     .qk_norm = QkNorm::kHeads},
    {.type = "glm", .bias = Bias::kQkv, .key_bias = Bias::kQkv},
    {.type = "glm4", .norms = 4, .bias = Bias::kQkv, .key_bias = Bias::kQkv},
    {.type = "glm4_moe",
     .key_bias = Bias::kQkv,
     .qk_norm = QkNorm::kIfAsked,
     .balancing_bias = true},
    {.type = "gpt_oss",
     .sizes = {.head_dim = 64},
     .windows = {.rule = WindowRule::kPattern, .pattern = 2, .default_window = 128},
     .bias = Bias::kQkvAndOut,
     .sinks = true,
     .expert_bias = true},
    {.type = "granite"},
    {.type = "granitemoe"},
    {.type = "granitemoeshared"},
    {.type = "helium", .sizes = {.head_dim = 128}},
    {.type = "hunyuan_v1_dense", .qk_norm = QkNorm::kHeads},
    {.type = "hunyuan_v1_moe", .qk_norm = QkNorm::kHeads},
    {.type = "internlm2"},
    {.type = "internlm3"},
    {.type = "llama"},
    {.type = "llama4_text",
     .sizes = {.head_dim = 128},
     .windows = {.rule = WindowRule::kChunked, .pattern = 4}},
    {.type = "minicpm", .sizes = kTied},
    {.type = "minimax_m2", .qk_norm = QkNorm::kRows, .balancing_bias = true},
    {.type = "ministral", .windows = kAllWindows},
    {.type = "ministral3", .windows = kAllWindows},
    {.type = "mistral", .windows = {.rule = WindowRule::kAll, .default_window = 4096}},
    {.type = "mixtral", .windows = kAllWindows},
    {.type = "nemotron", .norm_vectors = 2, .gated = false},
    {.type = "olmo", .norm_vectors = 0},
    {.type = "olmo2", .qk_norm = QkNorm::kRows},
    {.type = "olmo3",
     .windows = {.rule = WindowRule::kPattern, .pattern = 4, .default_window = 4096},
     .qk_norm = QkNorm::kRows},
    {.type = "olmoe", .qk_norm = QkNorm::kRows},
    {.type = "orion", .norm_vectors = 2},
    {.type = "phi3", .windows = kAllWindows},
    {.type = "phimoe", .windows = kAllWindows, .norm_vectors = 2, .key_bias = Bias::kQkvAndOut},
    {.type = "qwen2", .windows = kQwenWindows, .bias = Bias::kQkv, .key_bias = Bias::kQkv},
    {.type = "qwen2_moe",
     .windows = kQwenWindows,
     .bias = Bias::kQkv,
     .key_bias = Bias::kQkv,
     .shared_gate = true},
    {.type = "qwen3",
     .sizes = {.head_dim = 128},
     .windows = kQwenWindows,
     .qk_norm = QkNorm::kHeads},
    {.type = "qwen3_moe", .windows = kQwenWindows, .qk_norm = QkNorm::kHeads},
    {.type = "seed_oss", .sizes = {.head_dim = 128}, .bias = Bias::kQkv, .key_bias = Bias::kQkv},
    {.type = "smollm3", .sizes = kTied, .windows = kQwenWindows},
    {.type = "stablelm", .norm_vectors = 2, .key_bias = Bias::kQkv},
    {.type = "starcoder2",
     .sizes = kTied,
     .windows = kAllWindows,
     .norm_vectors = 2,
     .bias = Bias::kQkvAndOut,
     .gated = false,
     .ffn_bias = true},
};

int64_t qk_norm_elements(QkNorm kind, const Sizes& s) {
  if (kind == QkNorm::kHeads) return 2 * s.head_dim;
  if (kind == QkNorm::kRows) return (s.heads + s.kv_heads) * s.head_dim;
  return 0;
}

/// Cohere normalises head by head with weights of their own, GLM with one for all heads.
Result<int64_t> read_qk_norm(ConfigReader& config, const Traits& traits, const Sizes& s) {
  if (traits.qk_norm != QkNorm::kIfAsked) return qk_norm_elements(traits.qk_norm, s);
  QUIRE_TRY(const bool asked, config.flag({"use_qk_norm"}, false));
  if (!asked) return int64_t{0};
  return qk_norm_elements(traits.norms == 1 ? QkNorm::kRows : QkNorm::kHeads, s);
}

Result<Bias> read_bias(ConfigReader& config, const Traits& traits) {
  const Keys keys = {"attention_bias", "qkv_bias", "use_qkv_bias", "use_bias", "bias"};
  if (!config.has(keys)) return traits.bias;
  QUIRE_TRY(const bool biased, config.flag(keys, false));
  return biased ? traits.key_bias : Bias::kNone;
}

Result<AttentionPart> read_attention(ConfigReader& config, const Traits& traits, const Sizes& s) {
  AttentionPart part{.hidden = s.hidden,
                     .heads = s.heads,
                     .kv_heads = s.kv_heads,
                     .key_dim = s.head_dim,
                     .value_dim = s.head_dim};
  QUIRE_TRY(const Bias bias, read_bias(config, traits));
  part.query_bias = bias != Bias::kNone;
  QUIRE_TRY(part.out_bias, config.flag({"attention_out_bias"}, bias == Bias::kQkvAndOut));
  QUIRE_TRY(part.norm_elements, read_qk_norm(config, traits, s));
  if (traits.sinks) part.small_elements = s.heads;
  return part;
}

/// Ring the changes of what stands beside attention: dense feed-forwards and experts.
struct FfnLayers {
  FfnPart dense;
  std::optional<ExpertLayers> experts;
};

Result<FfnLayers> read_ffn(ConfigReader& config, const Traits& traits, const Sizes& s) {
  FfnLayers out;
  out.dense = {.hidden = s.hidden, .width = s.ffn, .gated = traits.gated};
  QUIRE_TRY(out.dense.bias, config.flag({"mlp_bias"}, traits.ffn_bias));
  if (traits.ffn_bias) {
    QUIRE_TRY(out.dense.bias, config.flag({"use_bias"}, true));
  }
  QUIRE_TRY(out.experts, read_experts(config, s));
  if (!out.experts) return out;
  ExpertsPart& part = out.experts->part;
  part.shared_gate = traits.shared_gate;
  part.router_bias = traits.balancing_bias || traits.expert_bias;
  part.bias = traits.expert_bias;
  if (traits.type == "llama4_text") {
    // Experts and the shared one are intermediate_size wide, the dense layers
    // intermediate_size_mlp.
    part.shared_width = s.ffn;
    QUIRE_TRY(out.dense.width, config.get({"intermediate_size_mlp"}, kMaxWidth, s.ffn));
  }
  return out;
}

Result<ModelShape> read_decoder(ConfigReader& config, const Traits& traits) {
  QUIRE_TRY(const Sizes s, read_sizes(config, traits.sizes));
  QUIRE_TRY(const auto windows, read_windows(config, s, traits.windows));
  QUIRE_TRY(AttentionPart attention, read_attention(config, traits, s));
  QUIRE_TRY(const FfnLayers ffn, read_ffn(config, traits, s));
  ModelShape shape = begin_shape(config, s);
  ShapeBuilder builder(shape);
  const int64_t norm = traits.norm_vectors * s.hidden;
  for (size_t i = 0; i < windows.size(); ++i) {
    builder.open_layer();
    attention.window = windows[i];
    builder.attention(attention);
    builder.small(traits.norms * norm);
    if (ffn.experts && ffn.experts->sparse[i]) {
      builder.experts(ffn.experts->part);
    } else {
      builder.ffn(ffn.dense);
      builder.small(traits.ffn_extra);
    }
  }
  QUIRE_TRY(const bool head_bias, config.flag({"lm_head_bias"}, traits.head_bias));
  if (head_bias) builder.small(s.vocab);
  QUIRE_TRY_VOID(finish_shape(builder, s, norm));
  return shape;
}

template <size_t kIndex>
Result<ModelShape> read_row(ConfigReader& config) {
  return read_decoder(config, kTraits[kIndex]);
}

template <size_t... kIndices>
constexpr auto families_of(std::index_sequence<kIndices...>) {
  return std::array{Family{kTraits[kIndices].type, read_row<kIndices>}...};
}

constexpr auto kFamilies = families_of(std::make_index_sequence<std::size(kTraits)>());

}  // namespace

std::span<const Family> decoder_families() {
  return kFamilies;
}

}  // namespace quire::plan
