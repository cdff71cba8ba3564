#include "model/architecture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/checked_math.h"
#include "model/architectures/descriptions.h"
#include "model/float_tensor.h"
#include "model/hf_config.h"

namespace quire::model {
namespace {

constexpr std::array<const Architecture*, 2> kAll = {&kGemma3, &kLlama};

Error unknown(std::string_view name) {
  std::string known;
  for (const Architecture* a : kAll) known += (known.empty() ? "" : ", ") + std::string(a->name);
  return {ErrorCode::kUnsupported,
          fmt::format("architecture '{}' is not one that Quire runs; known: {}", name, known)};
}

/// Llama 3 files carry the effect of their RoPE scaling as one divisor a frequency.
Result<void> read_rope_divisors(const formats::ModelFiles& files, ModelConfig& config) {
  const formats::TensorInfo* tensor = files.find("rope_freqs.weight");
  if (tensor == nullptr || tensor->bytes.empty() || config.ropes.empty()) return {};
  QUIRE_TRY(config.ropes.front().divisors, read_floats(*tensor));
  return {};
}

/// The vocabulary is as long as the embedding has rows, whatever the tokenizer says.
Result<DescribedModel> describe_gguf(const formats::ModelFiles& files) {
  const formats::GgufMetadata& metadata = *files.gguf();
  QUIRE_TRY(const auto name, metadata.require<std::string_view>("general.architecture"));
  const auto found = std::ranges::find(kAll, name, &Architecture::name);
  if (found == kAll.end()) return unknown(name);
  QUIRE_TRY(ModelConfig config, (*found)->from_gguf(metadata));
  const formats::TensorInfo* embedding = files.find("token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2) {
    return Error{ErrorCode::kBadFile, "the file has no matrix token_embd.weight"};
  }
  config.vocab = checked_cast<int32_t>(embedding->shape[0]).value_or(0);
  config.tied_head = files.find("output.weight") == nullptr;
  QUIRE_TRY_VOID(read_rope_divisors(files, config));
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
