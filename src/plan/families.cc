#include "plan/families.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "formats/printable.h"
#include "plan/families/common.h"

namespace quire::plan {
namespace {

using formats::Json;

/// Where multimodal configurations keep the text model's.
constexpr std::array<std::string_view, 5> kTextConfigs = {
    "text_config", "llm_config", "language_config", "thinker_config", "decoder_config"};
/// What a text model inherits from the document around it.
constexpr std::array<std::string_view, 3> kInherited = {"tie_word_embeddings", "torch_dtype",
                                                        "dtype"};

constexpr std::array<std::string_view, 20> kEncoderDecoders = {
    "bart",    "blenderbot",    "bigbird_pegasus",
    "fsmt",    "led",           "m2m_100",
    "marian",  "mbart",         "moonshine",
    "mt5",     "nllb_moe",      "pegasus",
    "plbart",  "prophetnet",    "t5",
    "t5gemma", "udop",          "umt5",
    "whisper", "speech_to_text"};
constexpr std::array<std::string_view, 14> kEncoders = {
    "albert",  "bert",  "camembert",  "clip",    "deberta", "deberta-v2",  "distilbert",
    "electra", "ernie", "modernbert", "roberta", "siglip",  "xlm-roberta", "nomic_bert"};

const Family* find_family(std::string_view type) {
  for (const auto table :
       {decoder_families(), gemma_families(), early_families(), latent_families(),
        state_space_families(), linear_attention_families()}) {
    const auto found = std::ranges::find(table, type, &Family::type);
    if (found != table.end()) return &*found;
  }
  return nullptr;
}

std::string word(const Json& json, std::string_view key) {
  const Json* value = json.find(key);
  return value != nullptr && value->is_string() ? *value->as_string() : std::string();
}

bool is_true(const Json& json, std::string_view key) {
  const Json* value = json.find(key);
  return value != nullptr && value->as_bool() == true;
}

Error encoder_decoder(std::string_view where, std::string_view type) {
  return {ErrorCode::kUnsupported,
          fmt::format("{}: {} is an encoder-decoder, which also caches the encoder's keys and "
                      "values; Quire plans decoders only",
                      where, formats::printable(type))};
}

Error refuse(std::string_view where, std::string_view type) {
  const std::string name = formats::printable(type);
  if (std::ranges::count(kEncoderDecoders, type) > 0) return encoder_decoder(where, type);
  if (std::ranges::count(kEncoders, type) > 0) {
    return {ErrorCode::kUnsupported,
            fmt::format("{}: {} is an encoder: it has no KV cache to plan", where, name)};
  }
  std::string known;
  for (const std::string& family : known_families()) known += (known.empty() ? "" : ", ") + family;
  return {ErrorCode::kUnsupported,
          fmt::format("{}: model_type '{}' is not known here; known: {}; or give the numbers: "
                      "--layers, --kv-heads, --head-dim",
                      where, name, known)};
}

/// Meta's params.json and Mistral's own format: the numbers of a llama by other names.
Result<ModelShape> shape_of_params(const Json& json, std::string where) {
  std::vector<std::string> notes;
  ConfigReader config(json, std::move(where), "a params.json", notes);
  Sizes s;
  QUIRE_TRY(s.layers, config.require({"n_layers"}, kMaxLayers));
  QUIRE_TRY(s.hidden, config.require({"dim"}, kMaxWidth));
  QUIRE_TRY(s.heads, config.require({"n_heads"}, kMaxHeads));
  QUIRE_TRY(s.kv_heads, config.get({"n_kv_heads"}, kMaxHeads, s.heads));
  QUIRE_TRY_VOID(check_heads(config, s.heads, s.kv_heads));
  QUIRE_TRY(s.head_dim,
            config.get({"head_dim"}, kMaxHeadDim, std::max<int64_t>(s.hidden / s.heads, 1)));
  QUIRE_TRY(s.vocab, config.require({"vocab_size"}, kMaxVocab));
  QUIRE_TRY(s.context, config.get({"max_seq_len", "model_max_length", "max_position_embeddings"},
                                  kMaxTokens, 0));
  QUIRE_TRY(s.tied, config.flag({"tied_embeddings"}, false));
  if (config.has({"hidden_dim"})) {
    QUIRE_TRY(s.ffn, config.require({"hidden_dim"}, kMaxWidth));
  } else {
    // Two thirds of four times the width, times a factor, rounded up. // Meta's llama reference
    QUIRE_TRY(const int64_t multiple, config.require({"multiple_of"}, kMaxWidth));
    QUIRE_TRY(const double factor, config.number({"ffn_dim_multiplier"}, 1.0));
    const double wide = factor * static_cast<double>(8 * s.hidden / 3);
    if (!(wide >= 1.0 && wide <= kMaxWidth)) {
      return config.bad(fmt::format("ffn_dim_multiplier {} cannot be", factor));
    }
    s.ffn = (static_cast<int64_t>(wide) + multiple - 1) / multiple * multiple;
  }
  QUIRE_TRY(const int64_t window, config.get({"sliding_window"}, INT32_MAX, 0));
  std::optional<ExpertsPart> experts;
  QUIRE_TRY(const auto moe, config.inner("moe"));
  if (moe) {
    QUIRE_TRY(const int64_t count, moe->require({"num_experts"}, kMaxExperts));
    experts = ExpertsPart{.hidden = s.hidden, .experts = count, .width = s.ffn};
  }
  ModelShape shape = begin_shape(config, s);
  ShapeBuilder builder(shape);
  for (int64_t i = 0; i < s.layers; ++i) {
    builder.open_layer();
    builder.attention({.hidden = s.hidden,
                       .heads = s.heads,
                       .kv_heads = s.kv_heads,
                       .key_dim = s.head_dim,
                       .value_dim = s.head_dim,
                       .window = window});
    builder.small(2 * s.hidden);
    if (experts) {
      builder.experts(*experts);
    } else {
      builder.ffn({.hidden = s.hidden, .width = s.ffn});
    }
  }
  QUIRE_TRY_VOID(finish_shape(builder, s, s.hidden));
  shape.family = "params.json";
  shape.float_type = "bf16";
  if (s.context == 0) notes.push_back("no trained length is given");
  shape.notes = std::move(notes);
  return shape;
}

/// The text model's object with what it inherits.
Json text_config(const Json& outer, const Json& inner) {
  Json text = inner;
  for (const std::string_view key : kInherited) {
    const Json* value = outer.find(key);
    if (value != nullptr && text.find(key) == nullptr) text.set(key, *value);
  }
  return text;
}

/// "bfloat16" and "torch.float16" as we call them; what is unknown is taken as 16 bits.
std::string float_type(const Json& json) {
  std::string type = word(json, "torch_dtype");
  if (type.empty()) type = word(json, "dtype");
  if (type.starts_with("torch.")) type = type.substr(6);
  if (type == "float32") return "f32";
  if (type == "float16") return "f16";
  return "bf16";
}

Result<ModelShape> shape_of_text(const Json& text, std::string_view where,
                                 std::string_view outer_type) {
  std::string type = word(text, "model_type");
  if (find_family(type) == nullptr && find_family(outer_type) != nullptr) type = outer_type;
  if (type.empty()) {
    return Error{ErrorCode::kBadFile,
                 fmt::format("{}: model_type is missing: it says how the other keys are meant; or "
                             "give the numbers: --layers, --kv-heads, --head-dim",
                             where)};
  }
  if (is_true(text, "is_encoder_decoder")) return encoder_decoder(where, type);
  const Family* family = find_family(type);
  if (family == nullptr) return refuse(where, type);
  std::vector<std::string> notes;
  ConfigReader config(text, std::string(where), std::string(family->type), notes);
  QUIRE_TRY(ModelShape shape, family->read(config));
  shape.float_type = float_type(text);
  notes.insert(notes.end(), shape.notes.begin(), shape.notes.end());
  shape.notes = std::move(notes);
  return shape;
}

}  // namespace

Result<ModelShape> shape_of_config(const Json& json, std::string_view where) {
  if (!json.is_object()) {
    return Error{ErrorCode::kBadFile, fmt::format("{} is no JSON object", where)};
  }
  if (json.find("model_type") == nullptr && json.find("dim") != nullptr &&
      json.find("n_layers") != nullptr) {
    return shape_of_params(json, std::string(where));
  }
  const std::string outer_type = word(json, "model_type");
  if (std::ranges::count(kEncoderDecoders, outer_type) > 0) return refuse(where, outer_type);
  if (is_true(json, "is_encoder_decoder")) return encoder_decoder(where, outer_type);
  for (const std::string_view key : kTextConfigs) {
    const Json* inner = json.find(key);
    if (inner == nullptr || !inner->is_object()) continue;
    // Qwen's omni models nest twice.
    const Json* deeper = inner->find("text_config");
    const Json& text = deeper != nullptr && deeper->is_object() ? *deeper : *inner;
    QUIRE_TRY(ModelShape shape, shape_of_text(text_config(json, text),
                                              fmt::format("{}: {}", where, key), outer_type));
    shape.notes.push_back(fmt::format(
        "only the text model ({}) is planned: vision and audio towers are left out", key));
    return shape;
  }
  return shape_of_text(json, where, outer_type);
}

std::vector<std::string> known_families() {
  std::vector<std::string> names;
  for (const auto table :
       {decoder_families(), gemma_families(), early_families(), latent_families(),
        state_space_families(), linear_attention_families()}) {
    for (const Family& family : table) names.emplace_back(family.type);
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace quire::plan
