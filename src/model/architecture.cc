#include "model/architecture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/checked_math.h"
#include "model/architectures/descriptions.h"
#include "model/float_tensor.h"
#include "model/gguf_keys.h"
#include "model/hf_config.h"

namespace quire::model {
namespace {

constexpr std::array<const Architecture*, 15> kAll = {
    &kFalcon, &kGemma2, &kGemma3,   &kGpt2,     &kGranite, &kLlama,     &kOlmo2,     &kPhi3,
    &kQwen2,  &kQwen3,  &kQwen2Moe, &kQwen3Moe, &kSmolLm3, &kStarcoder, &kStarcoder2};

Error unknown(std::string_view name) {
  std::string known;
  for (const Architecture* a : kAll) known += (known.empty() ? "" : ", ") + std::string(a->name);
  return {ErrorCode::kUnsupported,
          fmt::format("architecture '{}' is not one that Quire runs; known: {}", name, known)};
}

Result<std::vector<float>> floats_or_none(const formats::ModelFiles& files, const char* name) {
  const formats::TensorInfo* tensor = files.find(name);
  if (tensor == nullptr || tensor->bytes.empty()) return std::vector<float>();
  return read_floats(*tensor);
}

/// Llama 3 files carry the effect of their RoPE scaling as one divisor a frequency, LongRoPE files
/// two sets of them and often no rope.scaling.type.
Result<void> read_rope_divisors(const formats::ModelFiles& files, ModelConfig& config) {
  if (config.ropes.empty()) return {};
  RopeConfig& rope = config.ropes.front();
  QUIRE_TRY(rope.divisors, floats_or_none(files, "rope_freqs.weight"));
  QUIRE_TRY(rope.long_divisors, floats_or_none(files, "rope_factors_long.weight"));
  if (rope.long_divisors.empty()) return {};
  QUIRE_TRY(rope.divisors, floats_or_none(files, "rope_factors_short.weight"));
  QUIRE_TRY(rope, GgufKeys(*files.gguf(), config.architecture).long_rope(std::move(rope)));
  return {};
}

/// A model that YaRN stretches knows the stretched length, which older files do not state.
void stretch_context(ModelConfig& config) {
  for (const RopeConfig& rope : config.ropes) {
    const double stretched = rope.original_context * rope.factor;
    if (rope.scaling != RopeScaling::kYarn || !(stretched < 1e9)) continue;
    config.context = std::max(config.context, static_cast<int32_t>(std::lround(stretched)));
  }
}

Result<void> refuse_unread_experts(const formats::ModelFiles& files, const ModelConfig& config) {
  const GgufKeys keys(*files.gguf(), config.architecture);
  QUIRE_TRY(const int32_t experts, keys.int_or("expert_count", 0));
  if (experts == 0 || config.experts.count > 0) return {};
  return Error{
      ErrorCode::kUnsupported,
      fmt::format("{}.expert_count is {}: a mixture of experts of this architecture is not "
                  "run",
                  config.architecture, experts)};
}

/// The vocabulary is as long as the embedding has rows, whatever the tokenizer says.
Result<DescribedModel> describe_gguf(const formats::ModelFiles& files) {
  const formats::GgufMetadata& metadata = *files.gguf();
  QUIRE_TRY(const auto name, metadata.require<std::string_view>("general.architecture"));
  const auto found = std::ranges::find(kAll, name, &Architecture::name);
  if (found == kAll.end()) return unknown(name);
  QUIRE_TRY(ModelConfig config, (*found)->from_gguf(files));
  const formats::TensorInfo* embedding = files.find("token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2) {
    return Error{ErrorCode::kBadFile, "the file has no matrix token_embd.weight"};
  }
  config.vocab = checked_cast<int32_t>(embedding->shape[0]).value_or(0);
  config.tied_head = files.find("output.weight") == nullptr;
  QUIRE_TRY_VOID(refuse_unread_experts(files, config));
  QUIRE_TRY_VOID(read_rope_divisors(files, config));
  stretch_context(config);
  QUIRE_TRY(config, checked(std::move(config)));
  return DescribedModel{*found, std::move(config)};
}

Result<DescribedModel> describe_hf(const formats::ModelFiles& files) {
  const HfConfig outer(*files.config());
  QUIRE_TRY(const std::string outer_type, outer.text_or("model_type", ""));
  const formats::Json* nested = outer.find("text_config");
  const formats::Json& text = nested != nullptr ? *nested : *files.config();
  QUIRE_TRY(const std::string type, HfConfig(text).text_or("model_type", outer_type));
  const auto knows = [](std::string_view wanted) {
    return [wanted](const Architecture* a) {
      return std::ranges::find(a->hf_types, wanted) != a->hf_types.end();
    };
  };
  auto found = std::ranges::find_if(kAll, knows(type));
  if (found == kAll.end()) found = std::ranges::find_if(kAll, knows(outer_type));
  if (found == kAll.end()) return unknown(type);
  QUIRE_TRY(ModelConfig config, (*found)->from_hf(text));
  stretch_context(config);
  QUIRE_TRY(config, checked(std::move(config)));
  return DescribedModel{*found, std::move(config)};
}

}  // namespace

std::span<const Architecture* const> architectures() {
  return kAll;
}

Result<DescribedModel> describe(const formats::ModelFiles& files) {
  if (files.gguf() != nullptr) return describe_gguf(files);
  if (files.config() != nullptr) return describe_hf(files);
  return Error{ErrorCode::kNotFound, fmt::format("{} has no config.json", files.path())};
}

}  // namespace quire::model
