#include "model/tensor_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace quire::model {
namespace {

struct Prefix {
  std::string_view body;
  std::string_view head;
  bool multi_modal;
};

// Text models, then multi-modal folders of the two generations, then a bare body.
constexpr std::array<Prefix, 5> kPrefixes = {{
    {"model.", "", false},
    {"transformer.", "", false},
    {"language_model.model.", "language_model.", true},
    {"model.language_model.", "", true},
    {"", "", false},
}};

constexpr std::array<std::string_view, 3> kGgufRotations = {
    "rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"};

}  // namespace

TensorNames::TensorNames(const formats::ModelFiles& files, const Architecture& architecture)
    : architecture_(architecture), gguf_(files.gguf() != nullptr), body_(kPrefixes[0].body) {
  const std::string embedding = std::string(architecture.hf_names.embedding) + ".weight";
  for (const Prefix& prefix : kPrefixes) {
    if (files.find(std::string(prefix.body) + embedding) == nullptr) continue;
    body_ = prefix.body;
    head_prefix_ = prefix.head;
    multi_modal_ = prefix.multi_modal;
    return;
  }
}

std::string TensorNames::in_layer(const TensorName& name, int32_t layer, int32_t expert) const {
  std::string own(gguf_ ? name.gguf : name.hf);
  if (const size_t at = own.find("{}"); at != std::string::npos) {
    own.replace(at, 2, std::to_string(expert));
  }
  if (gguf_) return fmt::format("blk.{}.{}", layer, own);
  return fmt::format("{}{}.{}.{}", body_, architecture_.hf_names.layers, layer, own);
}

bool TensorNames::has_one_per_expert(const TensorName& name) const {
  return (gguf_ ? name.gguf : name.hf).find("{}") != std::string_view::npos;
}

std::string TensorNames::embedding() const {
  return gguf_ ? "token_embd" : top(architecture_.hf_names.embedding);
}

std::string TensorNames::positions() const {
  return gguf_ ? "position_embd" : top(architecture_.hf_names.positions);
}

std::string TensorNames::output_norm() const {
  return gguf_ ? "output_norm" : top(architecture_.hf_names.norm);
}

std::string TensorNames::head() const {
  return gguf_ ? "output" : head_prefix_ + "lm_head";
}

bool TensorNames::may_ignore(std::string_view tensor, bool tied_head) const {
  if (gguf_) return std::ranges::count(kGgufRotations, tensor) > 0;
  if (tensor.ends_with("rotary_emb.inv_freq")) return true;
  const auto ends_tensor = [&](std::string_view end) { return tensor.ends_with(end); };
  if (std::ranges::any_of(architecture_.hf_ignored, ends_tensor)) return true;
  const std::string head_tensor = head() + ".weight";
  if (tied_head && tensor == head_tensor) return true;
  return multi_modal_ && !tensor.starts_with(body_) && tensor != head_tensor;
}

}  // namespace quire::model
