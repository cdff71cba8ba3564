// What a GGUF header says about a model: rows by its keys, states and weights by its tensors.
// HeaderKeys: ggml's docs/gguf.md and the converters of llama.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>

#include "base/byte_size.h"
#include "base/checked_math.h"
#include "formats/printable.h"
#include "plan/config_reader.h"
#include "plan/families/common.h"
#include "plan/source.h"
#include "plan/weight_types.h"

namespace quire::plan {
namespace {

using formats::GgufMetadata;
using formats::GgufType;
using formats::ModelFiles;
using formats::TensorInfo;

/// Architectures by the names that GGUF gives them, with their rule for windows: every n-th layer
/// is global; 1: none is.
struct GgufFamily {
  std::string_view name;
  int64_t window_pattern = 0;  // 0: a window is ignored
};

constexpr std::array kFamilies = {
    GgufFamily{"apertus"},      GgufFamily{"arcee"},         GgufFamily{"baichuan"},
    GgufFamily{"bloom"},        GgufFamily{"chatglm"},       GgufFamily{"cohere2", 4},
    GgufFamily{"command-r"},    GgufFamily{"dbrx"},          GgufFamily{"deepseek"},
    GgufFamily{"deepseek2"},    GgufFamily{"dots1"},         GgufFamily{"ernie4_5"},
    GgufFamily{"ernie4_5-moe"}, GgufFamily{"exaone"},        GgufFamily{"exaone4", 4},
    GgufFamily{"falcon"},       GgufFamily{"falcon-h1"},     GgufFamily{"gemma"},
    GgufFamily{"gemma2", 2},    GgufFamily{"gemma3", 6},     GgufFamily{"gemma3n", 5},
    GgufFamily{"gemma4", 6},    GgufFamily{"glm4"},          GgufFamily{"glm4moe"},
    GgufFamily{"gpt-oss", 2},   GgufFamily{"gpt2"},          GgufFamily{"gptj"},
    GgufFamily{"gptneox"},      GgufFamily{"granite"},       GgufFamily{"granitehybrid"},
    GgufFamily{"granitemoe"},   GgufFamily{"hunyuan-dense"}, GgufFamily{"hunyuan-moe"},
    GgufFamily{"internlm2"},    GgufFamily{"jamba"},         GgufFamily{"kimi-linear"},
    GgufFamily{"lfm2"},         GgufFamily{"lfm2moe"},       GgufFamily{"llama", 1},
    GgufFamily{"llama4", 4},    GgufFamily{"mamba"},         GgufFamily{"mamba2"},
    GgufFamily{"minicpm"},      GgufFamily{"minicpm3"},      GgufFamily{"minimax-m2"},
    GgufFamily{"mistral3"},     GgufFamily{"mpt"},           GgufFamily{"nemotron"},
    GgufFamily{"nemotron_h"},   GgufFamily{"olmo"},          GgufFamily{"olmo2", 4},
    GgufFamily{"olmoe"},        GgufFamily{"openelm"},       GgufFamily{"orion"},
    GgufFamily{"phi2"},         GgufFamily{"phi3", 1},       GgufFamily{"phimoe", 1},
    GgufFamily{"qwen"},         GgufFamily{"qwen2"},         GgufFamily{"qwen2moe"},
    GgufFamily{"qwen2vl"},      GgufFamily{"qwen3"},         GgufFamily{"qwen35"},
    GgufFamily{"qwen35moe"},    GgufFamily{"qwen3moe"},      GgufFamily{"qwen3next"},
    GgufFamily{"qwen3vl"},      GgufFamily{"qwen3vlmoe"},    GgufFamily{"refact"},
    GgufFamily{"seed_oss"},     GgufFamily{"smollm3"},       GgufFamily{"stablelm"},
    GgufFamily{"starcoder"},    GgufFamily{"starcoder2", 1}, GgufFamily{"xverse"},
};

constexpr std::array<std::string_view, 2> kEncoderDecoders = {"t5", "t5encoder"};
constexpr std::array<std::string_view, 7> kEncoders = {
    "bert", "nomic-bert", "nomic-bert-moe", "jina-bert-v2", "neo-bert", "modern-bert", "clip"};

/// Reads "ARCH.key" with bounds.
class HeaderKeys {
 public:
  HeaderKeys(const GgufMetadata& metadata, std::string_view architecture)
      : metadata_(metadata), prefix_(std::string(architecture) + ".") {}

  std::string full(std::string_view key) const { return prefix_ + std::string(key); }

  Result<int64_t> get(std::string_view key, int64_t most, int64_t fallback) const {
    QUIRE_TRY(const auto value, metadata_.get<int64_t>(full(key)));
    if (!value) return fallback;
    if (*value < 0 || *value > most) {
      return Error{ErrorCode::kBadFile, fmt::format("{} is {}, which is not between 0 and {}",
                                                    full(key), *value, format_count(most))};
    }
    return *value;
  }

  Result<int64_t> require(std::string_view key, int64_t most) const {
    if (metadata_.find(full(key)) == nullptr) {
      return Error{ErrorCode::kBadFile, fmt::format("the file has no {}", full(key))};
    }
    QUIRE_TRY(const int64_t value, get(key, most, 0));
    if (value == 0) return Error{ErrorCode::kBadFile, fmt::format("{} is 0", full(key))};
    return value;
  }

  /// One number a layer, or one for all.
  Result<std::vector<int64_t>> per_layer(std::string_view key, int64_t layers, int64_t most,
                                         int64_t fallback) const {
    const formats::GgufValue* value = metadata_.find(full(key));
    std::vector<int64_t> out(static_cast<size_t>(layers), fallback);
    if (value == nullptr) return out;
    if (value->type != GgufType::kArray) {
      QUIRE_TRY(const int64_t all, get(key, most, fallback));
      std::ranges::fill(out, all);
      return out;
    }
    if (value->element_type == GgufType::kBool) return bools(key, layers);
    QUIRE_TRY(const auto given, metadata_.require<std::vector<int32_t>>(full(key)));
    return checked(key, layers, most, {given.begin(), given.end()});
  }

 private:
  Result<std::vector<int64_t>> bools(std::string_view key, int64_t layers) const {
    QUIRE_TRY(const auto given, metadata_.require<std::vector<bool>>(full(key)));
    return checked(key, layers, 1, {given.begin(), given.end()});
  }

  Result<std::vector<int64_t>> checked(std::string_view key, int64_t layers, int64_t most,
                                       std::vector<int64_t> given) const {
    if (static_cast<int64_t>(given.size()) != layers) {
      return Error{ErrorCode::kBadFile, fmt::format("{} lists {} layers, but there are {}",
                                                    full(key), given.size(), layers)};
    }
    for (const int64_t number : given) {
      if (number >= 0 && number <= most) continue;
      return Error{ErrorCode::kBadFile, fmt::format("{} holds {}, which is not between 0 and {}",
                                                    full(key), number, format_count(most))};
    }
    return given;
  }

  const GgufMetadata& metadata_;
  std::string prefix_;
};

Result<const GgufFamily*> find_family(std::string_view name) {
  const auto found = std::ranges::find(kFamilies, name, &GgufFamily::name);
  if (found != kFamilies.end()) return &*found;
  const std::string shown = formats::printable(name);
  if (std::ranges::count(kEncoderDecoders, name) > 0) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("{} is an encoder-decoder, which also caches the encoder's keys and "
                             "values; Quire plans decoders only",
                             shown)};
  }
  if (std::ranges::count(kEncoders, name) > 0) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("{} is an encoder: it has no KV cache to plan", shown)};
  }
  return Error{ErrorCode::kUnsupported,
               fmt::format("architecture '{}' is not known here; give the numbers instead: "
                           "--layers, --kv-heads, --head-dim",
                           shown)};
}

/// "blk.17.attn_q.weight" as 17 and "attn_q"; -1 outside layers.
struct TensorName {
  int32_t layer = -1;
  std::string_view part;
};

TensorName parse_name(std::string_view name) {
  TensorName out;
  if (name.starts_with("blk.")) {
    const char* begin = name.data() + 4;
    const auto parsed = std::from_chars(begin, name.data() + name.size(), out.layer);
    if (parsed.ec != std::errc() || parsed.ptr == name.data() + name.size()) return {-1, name};
    name.remove_prefix(static_cast<size_t>(parsed.ptr - name.data()) + 1);
  }
  out.part = name.ends_with(".weight") ? name.substr(0, name.size() - 7) : name;
  return out;
}

WeightRole role_of(std::string_view part) {
  struct Named {
    std::string_view part;
    WeightRole role;
  };
  constexpr std::array kRoles = {
      Named{"token_embd", WeightRole::kEmbedding},
      Named{"per_layer_token_embd", WeightRole::kEmbedding},
      Named{"output", WeightRole::kHead},
      Named{"attn_q", WeightRole::kQuery},
      Named{"attn_k", WeightRole::kKey},
      Named{"attn_v", WeightRole::kValue},
      Named{"attn_qkv", WeightRole::kFusedQkv},
      Named{"attn_output", WeightRole::kAttentionOut},
      Named{"ffn_gate", WeightRole::kGate},
      Named{"ffn_up", WeightRole::kUp},
      Named{"ffn_down", WeightRole::kDown},
      Named{"ffn_gate_exps", WeightRole::kGate},
      Named{"ffn_up_exps", WeightRole::kUp},
      Named{"ffn_down_exps", WeightRole::kDown},
      Named{"ffn_gate_inp", WeightRole::kSmall},
      Named{"ssm_conv1d", WeightRole::kSmall},
      Named{"ssm_a", WeightRole::kSmall},
      Named{"shortconv.conv", WeightRole::kSmall},
  };
  const auto found = std::ranges::find(kRoles, part, &Named::part);
  return found == kRoles.end() ? WeightRole::kOtherMatrix : found->role;
}

/// What the tensors of one layer show it to be.
struct LayerTensors {
  bool rows = false;
  bool latent = false;
  bool ssm = false;
  bool short_conv = false;
  int64_t conv_channels = 0;
};

std::vector<LayerTensors> look_at_tensors(const ModelFiles& files, int64_t layers) {
  std::vector<LayerTensors> out(static_cast<size_t>(layers));
  for (const TensorInfo& tensor : files.tensors()) {
    const TensorName name = parse_name(tensor.name);
    if (name.layer < 0 || name.layer >= layers) continue;
    LayerTensors& layer = out[static_cast<size_t>(name.layer)];
    layer.rows |= name.part == "attn_k" || name.part == "attn_qkv";
    layer.latent |= name.part == "attn_kv_a_mqa";
    layer.short_conv |= name.part == "shortconv.conv";
    if (name.part == "ssm_conv1d") {
      layer.ssm = true;
      layer.conv_channels = tensor.shape.empty() ? 0 : tensor.shape.front();
    }
  }
  return out;
}

struct Widths {
  int64_t layers = 0;
  int64_t hidden = 0;
  std::vector<int64_t> heads, kv_heads, ffn;
  int64_t key_dim = 0;
  int64_t value_dim = 0;
  int64_t context = 0;
};

Result<Widths> read_widths(const HeaderKeys& keys) {
  Widths w;
  QUIRE_TRY(w.layers, keys.require("block_count", kMaxLayers));
  QUIRE_TRY(w.hidden, keys.require("embedding_length", kMaxWidth));
  QUIRE_TRY(w.heads, keys.per_layer("attention.head_count", w.layers, kMaxHeads, 0));
  const int64_t heads = *std::ranges::max_element(w.heads);
  QUIRE_TRY(w.kv_heads, keys.per_layer("attention.head_count_kv", w.layers, kMaxHeads, heads));
  QUIRE_TRY(w.ffn, keys.per_layer("feed_forward_length", w.layers, kMaxWidth, 0));
  QUIRE_TRY(w.context, keys.get("context_length", kMaxTokens, 0));
  const int64_t even = heads > 0 ? w.hidden / heads : 0;
  QUIRE_TRY(w.key_dim, keys.get("attention.key_length", kMaxHeadDim, even));
  QUIRE_TRY(w.value_dim, keys.get("attention.value_length", kMaxHeadDim, w.key_dim));
  return w;
}

/// A model that YaRN stretches knows the stretched length, which older files do not state.
Result<int64_t> stretched_context(const GgufMetadata& metadata, const HeaderKeys& keys,
                                  int64_t context) {
  QUIRE_TRY(const auto type, metadata.get<std::string_view>(keys.full("rope.scaling.type")));
  if (!type || *type != "yarn") return context;
  QUIRE_TRY(const auto factor, metadata.get<double>(keys.full("rope.scaling.factor")));
  QUIRE_TRY(const int64_t original,
            keys.get("rope.scaling.original_context_length", kMaxTokens, 0));
  const double stretched = static_cast<double>(original) * factor.value_or(0.0);
  if (!(stretched < static_cast<double>(kMaxTokens))) return context;
  return std::max<int64_t>(context, std::llround(stretched));
}

/// Window tokens of each layer; 0: global.
Result<std::vector<int64_t>> read_gguf_windows(const HeaderKeys& keys, const GgufFamily& family,
                                               const Widths& w) {
  std::vector<int64_t> windows(static_cast<size_t>(w.layers), 0);
  QUIRE_TRY(int64_t window, keys.get("attention.sliding_window", INT32_MAX, 0));
  if (window == 0) {
    QUIRE_TRY(window, keys.get("attention.chunk_size", INT32_MAX, 0));
  }
  if (window == 0 || family.window_pattern == 0 || (w.context > 0 && window >= w.context)) {
    return windows;
  }
  QUIRE_TRY(const auto pattern, keys.per_layer("attention.sliding_window_pattern", w.layers,
                                               kMaxLayers, family.window_pattern));
  const bool flags = *std::ranges::max_element(pattern) <= 1 && family.window_pattern > 1;
  for (size_t i = 0; i < windows.size(); ++i) {
    const int64_t every = std::max<int64_t>(pattern[i], 1);
    const bool global =
        flags ? pattern[i] == 0 : every > 1 && (static_cast<int64_t>(i) + 1) % every == 0;
    if (!global) windows[i] = window;
  }
  return windows;
}

Result<int64_t> state_bytes(const HeaderKeys& keys, const LayerTensors& layer, int64_t hidden) {
  if (layer.short_conv) {
    QUIRE_TRY(const int64_t kernel, keys.require("shortconv.l_cache", 1024));
    return hidden * (kernel - 1) * 2;
  }
  if (!layer.ssm) return int64_t{0};
  QUIRE_TRY(const int64_t kernel, keys.require("ssm.conv_kernel", 1024));
  QUIRE_TRY(const int64_t inner, keys.require("ssm.inner_size", int64_t{1} << 28));
  QUIRE_TRY(const int64_t state, keys.require("ssm.state_size", 1 << 14));
  return inner * state * 4 + std::min(layer.conv_channels, int64_t{1} << 34) * (kernel - 1) * 2;
}

Result<LayerCache> latent_rows(const HeaderKeys& keys, const Widths& w, int64_t heads) {
  LayerCache cache;
  QUIRE_TRY(const int64_t rank, keys.require("attention.kv_lora_rank", kMaxHeadDim));
  QUIRE_TRY(const int64_t rotated, keys.require("rope.dimension_count", kMaxHeadDim));
  QUIRE_TRY(const int64_t key, keys.get("attention.key_length_mla", kMaxHeadDim, w.key_dim));
  QUIRE_TRY(const int64_t value, keys.get("attention.value_length_mla", kMaxHeadDim, w.value_dim));
  cache.num_kv_heads = 1;
  cache.key_dim = static_cast<int32_t>(rank + rotated);
  cache.mha_heads = static_cast<int32_t>(heads);
  cache.mha_key_dim = static_cast<int32_t>(key);
  cache.mha_value_dim = static_cast<int32_t>(value);
  return cache;
}

/// Gemma 4's window layers have heads of another size than its global ones.
Result<LayerCache> plain_rows(const HeaderKeys& keys, const Widths& w, size_t layer,
                              int64_t window) {
  int64_t key = w.key_dim;
  int64_t value = w.value_dim;
  if (window > 0) {
    QUIRE_TRY(key, keys.get("attention.key_length_swa", kMaxHeadDim, key));
    QUIRE_TRY(value, keys.get("attention.value_length_swa", kMaxHeadDim, value));
  }
  const int64_t heads = w.heads[layer];
  const int64_t kv_heads = w.kv_heads[layer];
  if (kv_heads == 0) return LayerCache{};
  if (heads == 0 || heads % kv_heads != 0 || key == 0 || value == 0) {
    return Error{ErrorCode::kBadFile,
                 fmt::format("layer {} has {} heads of {} and {} dimensions for {} kv heads, which "
                             "cannot be",
                             layer, heads, key, value, kv_heads)};
  }
  return LayerCache{.num_kv_heads = static_cast<int32_t>(kv_heads),
                    .key_dim = static_cast<int32_t>(key),
                    .value_dim = static_cast<int32_t>(value),
                    .window_tokens = static_cast<int32_t>(window),
                    .mha_heads = static_cast<int32_t>(heads),
                    .mha_key_dim = static_cast<int32_t>(key),
                    .mha_value_dim = static_cast<int32_t>(value)};
}

Result<std::vector<LayerCache>> read_caches(const ModelFiles& files, const HeaderKeys& keys,
                                            const GgufFamily& family, const Widths& w) {
  QUIRE_TRY(const auto windows, read_gguf_windows(keys, family, w));
  QUIRE_TRY(const int64_t sharing, keys.get("attention.shared_kv_layers", kMaxLayers, 0));
  const auto tensors = look_at_tensors(files, w.layers);
  const bool any_tensors = !files.tensors().empty();
  std::vector<LayerCache> caches;
  for (size_t i = 0; i < windows.size(); ++i) {
    const LayerTensors& has = tensors[i];
    LayerCache cache;
    const bool shares = static_cast<int64_t>(i) >= w.layers - sharing;
    if (has.latent) {
      QUIRE_TRY(cache, latent_rows(keys, w, w.heads[i]));
    } else if (!shares && (has.rows || !any_tensors)) {
      QUIRE_TRY(cache, plain_rows(keys, w, i, windows[i]));
    }
    QUIRE_TRY(cache.state_bytes, state_bytes(keys, has, w.hidden));
    caches.push_back(cache);
  }
  return caches;
}

/// Whether a tensor stays out of memory: tables that only the rotation reads.
bool is_rotation_table(std::string_view name) {
  return name.starts_with("rope_f");
}

void add_weight(const TensorInfo& tensor, ModelShape& shape) {
  const TensorName name = parse_name(tensor.name);
  const auto& dims = tensor.shape;  // slowest first
  Weight w{.layer = name.layer};
  if (dims.size() < 2) {
    w.cols = formats::num_elements(tensor);
  } else {
    w.role = role_of(name.part);
    w.rows = dims[dims.size() - 2];
    w.cols = dims[dims.size() - 1];
    w.count = std::accumulate(dims.begin(), dims.end() - 2, int64_t{1}, std::multiplies<>());
  }
  if (w.elements() > 0) shape.weights.push_back(w);
}

}  // namespace

StoredWeights stored_weights(const ModelFiles& files) {
  StoredWeights out;
  std::vector<std::pair<std::string, int64_t>> counts;
  for (const TensorInfo& tensor : files.tensors()) {
    if (is_rotation_table(tensor.name)) continue;
    const int64_t elements = formats::num_elements(tensor);
    const auto bytes = static_cast<int64_t>(tensor.num_bytes);
    out.parameters += elements;
    out.file_bytes += bytes;
    if (tensor.shape.size() < 2) {
      out.loaded_bytes += elements * 4;
    } else if (tensor.type && elements > 0) {
      const int64_t cols = tensor.shape.back();
      out.loaded_bytes += matrix_bytes(*tensor.type, elements / cols, cols).loaded;
    } else {
      out.loaded_bytes += bytes;
    }
    auto found =
        std::ranges::find(counts, tensor.type_name, &std::pair<std::string, int64_t>::first);
    if (found == counts.end()) found = counts.insert(counts.end(), {tensor.type_name, 0});
    ++found->second;
  }
  std::ranges::sort(counts, std::greater<>(), &std::pair<std::string, int64_t>::second);
  for (const auto& [type, count] : counts) {
    out.types += fmt::format("{}{} {}", out.types.empty() ? "" : ", ", count, type);
  }
  return out;
}

Result<ModelShape> shape_of_gguf(const ModelFiles& files) {
  const GgufMetadata& metadata = *files.gguf();
  QUIRE_TRY(const auto architecture, metadata.require<std::string_view>("general.architecture"));
  QUIRE_TRY(const GgufFamily* family, find_family(architecture));
  const HeaderKeys keys(metadata, architecture);
  QUIRE_TRY(const Widths w, read_widths(keys));
  ModelShape shape;
  shape.family = std::string(architecture);
  QUIRE_TRY(shape.context, stretched_context(metadata, keys, w.context));
  QUIRE_TRY(shape.layers, read_caches(files, keys, *family, w));
  for (const TensorInfo& tensor : files.tensors()) {
    if (!is_rotation_table(tensor.name)) add_weight(tensor, shape);
  }
  const TensorInfo* embedding = files.find("token_embd.weight");
  if (embedding != nullptr && embedding->shape.size() == 2) shape.vocab = embedding->shape[0];
  const int64_t heads = *std::ranges::max_element(w.heads);
  const int64_t kv_heads = *std::ranges::max_element(w.kv_heads);
  shape.widths = {.hidden = w.hidden,
                  .query = heads * w.key_dim,
                  .key_value = kv_heads * w.key_dim,
                  .ffn = *std::ranges::max_element(w.ffn),
                  .heads = heads,
                  .head_dim = w.key_dim,
                  .num_ropes = architecture == "gemma3" ? 2 : 1};
  if (!files.tensors().empty()) shape.stored = stored_weights(files);
  return shape;
}

}  // namespace quire::plan
