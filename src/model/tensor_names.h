// tensor_names.h: the full name of each tensor of a model in its files.
//
// Pure functions of the files' kind and the description.
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

  /// "blk.3.attn_q.weight" or "model.layers.3.self_attn.q_proj.weight".
  std::string in_layer(const TensorName& name, int32_t layer) const;
  std::string embedding() const;
  std::string output_norm() const;
  std::string head() const;

  /// Tensors that a file may hold without any effect on the text model: rotation tables that we
  /// compute ourselves, a head that is tied, the vision part of a multi-modal file.
  bool may_ignore(std::string_view tensor, bool tied_head) const;

 private:
  bool gguf_;
  std::string prefix_;  // of Hugging Face names: "model." or "language_model.model."
  std::string head_prefix_;
};

}  // namespace quire::model
