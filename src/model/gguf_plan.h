// gguf_plan.h: what a GGUF file of a model would hold: its keys, and where each tensor comes from.
//
// From a GGUF file everything is taken as it is, whatever the architecture. From a Hugging Face
// folder the description says which tensor is which; what GGUF cannot say is refused, never lost:
// the finished header must describe the same model.
// The plan's views live as long as the files. Pure functions.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "formats/gguf_writer.h"
#include "formats/model_files.h"

namespace quire::model {

/// One tensor of the file to be: rows of the sources, one after the other, or given values.
struct GgufTensor {
  std::string name;
  std::vector<int64_t> shape;  // slowest dimension first
  /// Equal in shape: one, or one an expert. None: `values`.
  std::vector<const formats::TensorInfo*> sources;
  /// The source's row for row r, or its element where it is a vector; nullptr: r.
  std::function<int64_t(int64_t)> source_row = nullptr;
  bool transposed = false;  // row r is column r of the source
  float add = 0.0f;         // to each number
  std::vector<float> values;
};

struct GgufPlan {
  formats::GgufWriter writer;  // keys set, tensors not yet declared
  std::vector<GgufTensor> tensors;
  bool has_head = false;  // output.weight; else the embedding is the head too
  int64_t experts = 0;    // a layer
  int64_t vocab = 0;      // rows of the embedding
};

/// Keys and tensors of a GGUF file, but for those that concern only the old file: its type, its
/// alignment, its place in a split set.
Result<GgufPlan> plan_from_gguf(const formats::ModelFiles& files);

/// The model's keys and tensors of a folder; the tokenizer's keys are the caller's business.
Result<GgufPlan> plan_from_folder(const formats::ModelFiles& files);

/// Reads the header of a folder's plan, its tensors declared, and compares what it describes with
/// what the folder does. A sentence names what GGUF cannot say.
Result<void> check_same_model(const formats::ModelFiles& folder, const GgufPlan& plan);

}  // namespace quire::model
