// tensor_names.h: the full name of each tensor of a model in its files.
//
// Names come without ".weight" or ".bias", which the loader adds. Pure functions of the files' kind
// and the description.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "formats/model_files.h"
#include "model/architecture.h"

namespace quire::model {

class TensorNames {
 public:
  TensorNames(const formats::ModelFiles& files, const Architecture& architecture);

  /// "blk.3.attn_q" or "model.layers.3.self_attn.q_proj". `expert` replaces "{}" in the name.
  std::string in_layer(const TensorName& name, int32_t layer, int32_t expert = 0) const;
  /// Whether each expert has a tensor of its own under that name.
  bool has_one_per_expert(const TensorName& name) const;
  std::string embedding() const;
  std::string positions() const;
  std::string output_norm() const;
  std::string head() const;

  /// Tensors that a file may hold without any effect on the text model: rotation tables that we
  /// compute ourselves, masks, a head that is tied, the vision part of a multi-modal file.
  bool may_ignore(std::string_view tensor, bool tied_head) const;

 private:
  std::string top(std::string_view name) const { return body_ + std::string(name); }

  const Architecture& architecture_;
  bool gguf_;
  std::string body_;  // of Hugging Face names: "model.", "transformer.", "language_model.model."
  std::string head_prefix_;
  bool multi_modal_ = false;
};

}  // namespace quire::model
