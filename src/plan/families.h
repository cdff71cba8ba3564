// families.h: which configurations are understood, and how each family's keys become a shape.
//
// To add a family, add a row to one of the tables in families/: most decoders are a row of traits.
// What is not listed is refused by name, as are encoders and encoder-decoders. Pure functions.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "plan/config_reader.h"
#include "plan/model_shape.h"

namespace quire::plan {

struct Family {
  std::string_view type;  // model_type
  Result<ModelShape> (*read)(ConfigReader&);
};

std::span<const Family> decoder_families();  // one stream of equal layers, table-driven
std::span<const Family> gemma_families();
std::span<const Family> early_families();   // GPT-2 and its age, with keys of their own
std::span<const Family> latent_families();  // multi-head latent attention
std::span<const Family> state_space_families();
std::span<const Family> linear_attention_families();

/// The shape that a config.json describes, told by its content: a Hugging Face configuration
/// (possibly one with a vision or audio tower around its text model), or a params.json of Meta's or
/// Mistral's own format. `where` names it in sentences.
Result<ModelShape> shape_of_config(const formats::Json& json, std::string_view where);

/// All types, sorted.
std::vector<std::string> known_families();

}  // namespace quire::plan
