#include "model/tensor_names.h"

#include <fmt/format.h>

#include <array>

namespace quire::model {
namespace {

struct Prefix {
  std::string_view body;
  std::string_view head;
};

// Text models, then multi-modal folders of the two generations, then a bare body.
constexpr std::array<Prefix, 4> kPrefixes = {{
    {"model.", ""},
    {"language_model.model.", "language_model."},
    {"model.language_model.", ""},
    {"", ""},
}};

}  // namespace

TensorNames::TensorNames(const formats::ModelFiles& files, const Architecture&)
    : gguf_(files.gguf() != nullptr), prefix_(kPrefixes[0].body), head_prefix_(kPrefixes[0].head) {
  for (const Prefix& prefix : kPrefixes) {
    if (files.find(std::string(prefix.body) + "embed_tokens.weight") == nullptr) continue;
    prefix_ = prefix.body;
    head_prefix_ = prefix.head;
    return;
  }
}

std::string TensorNames::in_layer(const TensorName& name, int32_t layer) const {
  if (gguf_) return fmt::format("blk.{}.{}.weight", layer, name.gguf);
  return fmt::format("{}layers.{}.{}.weight", prefix_, layer, name.hf);
}

std::string TensorNames::embedding() const {
  return gguf_ ? "token_embd.weight" : prefix_ + "embed_tokens.weight";
}

std::string TensorNames::output_norm() const {
  return gguf_ ? "output_norm.weight" : prefix_ + "norm.weight";
}

std::string TensorNames::head() const {
  return gguf_ ? "output.weight" : head_prefix_ + "lm_head.weight";
}

bool TensorNames::may_ignore(std::string_view tensor, bool tied_head) const {
  if (gguf_) return tensor == "rope_freqs.weight";
  if (tensor.ends_with("rotary_emb.inv_freq")) return true;
  if (tied_head && tensor == head()) return true;
  const bool multi_modal = prefix_ != kPrefixes[0].body && !prefix_.empty();
  return multi_modal && !tensor.starts_with(prefix_) && tensor != head();
}

}  // namespace quire::model
