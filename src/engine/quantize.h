// quantize.h: a model's files, rewritten as one GGUF file in another weight type.
//
// Which tensors take the type follows llama.cpp: matrices do; norms, biases, routers and position
// tables stay as they are (f32 from a folder); with a type of 4 bits the output head stays at q8_0,
// or as it is where it has been quantized before. All keys are kept, tokenizer and chat template
// included. Nothing is left of a file that was not finished (NewFile). Use from one thread.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/element_type.h"
#include "base/new_file.h"
#include "base/result.h"
#include "formats/model_files.h"

namespace quire::engine {

struct QuantizeOptions {
  ElementType type = ElementType::Q8_0;  // one of quantize_types()
  int32_t threads = 1;
  /// Called now and then with the share done; returns false to stop.
  std::function<bool(double)> progress = nullptr;
};

/// "f16", "q8_0", "q4_0" or "q4_1", in either case; nothing for any other.
std::optional<ElementType> quantize_type_from_name(std::string_view name);

struct QuantizeReport {
  uint64_t file_bytes = 0;
  std::map<std::string, int64_t> tensors;  // how many of each type
  std::vector<std::string> remarks;        // a sentence each
};

/// Writes and commits `out`. One sentence names a tensor that cannot be read or written so, or what
/// GGUF or Quire does not know of a folder.
Result<QuantizeReport> quantize_model(const formats::ModelFiles& files,
                                      const QuantizeOptions& options, NewFile& out);

/// What a weight is stored as, given what it is now: the rule itself. Pure.
struct WeightPlace {
  std::string_view name;  // GGUF's
  size_t dimensions = 2;
  int64_t columns = 0;
  ElementType source = ElementType::F32;
  bool is_head = false;        // the output head, or the embedding that is the head too
  bool from_folder = false;    // what is no matrix becomes f32
  bool eight_experts = false;  // keys and values are few beside the experts: q8_0
};
ElementType stored_type(const WeightPlace& place, ElementType wanted);

}  // namespace quire::engine
