#include "plan/source.h"

#include <fmt/format.h>

#include "formats/gguf.h"
#include "formats/json.h"
#include "formats/printable.h"
#include "plan/blocks.h"
#include "plan/cache_plan.h"
#include "plan/families.h"
#include "plan/families/common.h"

namespace quire::plan {
namespace {

using formats::Json;
using formats::ModelFiles;

// Real configurations have a few thousand bytes.
constexpr uint64_t kMaxConfigBytes = 4 << 20;

Result<bool> is_gguf(FileSystem& files, const std::string& path) {
  QUIRE_TRY(const auto mapped, files.map(path));
  return formats::GgufFile::has_magic(mapped->bytes());
}

Result<ModelShape> shape_of_files(FileSystem& file_system, const std::string& path) {
  QUIRE_TRY(const ModelFiles files,
            ModelFiles::open(file_system, path, formats::OpenMode::kMetadataOnly));
  if (files.gguf() != nullptr) return shape_of_gguf(files);
  if (files.config() == nullptr) {
    return Error{ErrorCode::kNotFound, fmt::format("{} has no config.json", path)};
  }
  QUIRE_TRY(ModelShape shape, shape_of_config(*files.config(), "config.json"));
  if (!files.tensors().empty()) shape.stored = stored_weights(files);
  return shape;
}

Result<ModelShape> shape_of_json_file(FileSystem& files, const std::string& path) {
  QUIRE_TRY(const std::string text, files.read(path, kMaxConfigBytes));
  const size_t first = text.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  if (first == std::string::npos || text[first] != '{') {
    return Error{ErrorCode::kBadFile,
                 fmt::format("{} is neither a GGUF file nor a JSON configuration", path)};
  }
  QUIRE_TRY(const Json json, Json::parse(std::string_view(text).substr(first), path));
  return shape_of_config(json, formats::printable(path));
}

}  // namespace

Result<ModelShape> shape_of_path(FileSystem& files, const std::string& path) {
  bool as_model = files.is_directory(path);
  if (!as_model) {
    QUIRE_TRY(as_model, is_gguf(files, path));
  }
  auto shape = as_model ? shape_of_files(files, path) : shape_of_json_file(files, path);
  if (!shape.ok()) return shape;
  QUIRE_TRY_VOID(check_cache_size(*shape));
  return shape;
}

Result<ModelShape> shape_of_numbers(const BareNumbers& n) {
  struct Needed {
    std::string_view option;
    bool given;
  };
  for (const Needed& needed :
       {Needed{"--layers", n.layers.has_value()}, Needed{"--kv-heads", n.kv_heads.has_value()},
        Needed{"--head-dim", n.head_dim.has_value()}}) {
    if (needed.given) continue;
    return Error{ErrorCode::kUsage,
                 fmt::format("{} is missing: without a model, the plan needs --layers, --kv-heads "
                             "and --head-dim",
                             needed.option)};
  }
  const int64_t heads = n.heads.value_or(*n.kv_heads);
  if (heads % *n.kv_heads != 0) {
    return Error{ErrorCode::kUsage,
                 fmt::format("--heads {} cannot share --kv-heads {} evenly", heads, *n.kv_heads)};
  }
  ModelShape shape;
  shape.family = "numbers given by hand";
  shape.vocab = n.vocab.value_or(0);
  shape.float_type = "bf16";
  ShapeBuilder builder(shape);
  for (int64_t i = 0; i < *n.layers; ++i) {
    builder.open_layer();
    const bool global = n.window_every && (i + 1) % *n.window_every == 0;
    builder.attention({.hidden = n.hidden.value_or(0),
                       .heads = heads,
                       .kv_heads = *n.kv_heads,
                       .key_dim = *n.head_dim,
                       .value_dim = n.value_dim.value_or(*n.head_dim),
                       .window = global ? 0 : n.window.value_or(0)});
    builder.ffn({.hidden = n.hidden.value_or(0), .width = n.ffn.value_or(0)});
  }
  builder.outside_layers();
  builder.matrix(WeightRole::kEmbedding, n.vocab.value_or(0), n.hidden.value_or(0));
  QUIRE_TRY_VOID(builder.check());
  if (n.parameters) {
    // One matrix of that many numbers stands for all.
    shape.weights = {
        Weight{.role = WeightRole::kOtherMatrix, .rows = (*n.parameters + 255) / 256, .cols = 256}};
  } else if (!n.hidden || !n.ffn || !n.vocab) {
    shape.weights.clear();
    shape.notes.push_back(
        "weights, activations and logits are left out: give --parameters, or --hidden, --ffn, "
        "--heads and --vocab");
  }
  if (n.hidden && n.ffn) {
    shape.widths = {.hidden = *n.hidden,
                    .query = heads * *n.head_dim,
                    .key_value = *n.kv_heads * *n.head_dim,
                    .ffn = *n.ffn,
                    .heads = heads,
                    .head_dim = *n.head_dim};
  }
  if (!n.heads) shape.notes.push_back("--heads is not given: taken as many as kv heads");
  QUIRE_TRY_VOID(check_cache_size(shape));
  return shape;
}

}  // namespace quire::plan
