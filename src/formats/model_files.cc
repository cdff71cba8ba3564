#include "formats/model_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

#include "formats/gguf.h"
#include "formats/printable.h"
#include "formats/safetensors.h"
#include "formats/shard_name.h"

namespace quire::formats {
namespace {

constexpr std::string_view kConfig = "config.json";
constexpr std::string_view kGenerationConfig = "generation_config.json";
constexpr std::string_view kSingle = "model.safetensors";
constexpr std::string_view kIndex = "model.safetensors.index.json";
constexpr std::string_view kSafetensors = ".safetensors";
constexpr std::string_view kGguf = ".gguf";
constexpr std::string_view kSnapshots = "snapshots";
constexpr uint64_t kMaxRefBytes = 4096;
// Real ones have a few thousand bytes, and 100 bytes for each of up to 100,000 tensors.
constexpr uint64_t kMaxConfigBytes = 4 << 20;
constexpr uint64_t kMaxIndexBytes = 64 << 20;

std::string join(const std::string& folder, std::string_view name) {
  return fmt::format("{}{}{}", folder, folder.ends_with('/') ? "" : "/", name);
}

/// A file name without any path: an index may not lead out of its folder.
bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

Result<Json> read_json(FileSystem& files, const std::string& path, uint64_t max_bytes) {
  QUIRE_TRY(const std::string text, files.read(path, max_bytes));
  return Json::parse(text, path);
}

Result<std::optional<Json>> read_json_object_if_there(FileSystem& files, const std::string& path) {
  if (!files.is_file(path)) return std::optional<Json>();
  QUIRE_TRY(Json json, read_json(files, path, kMaxConfigBytes));
  if (!json.is_object()) {
    return Error{ErrorCode::kBadFile, fmt::format("{} is no JSON object", path)};
  }
  return std::optional<Json>(std::move(json));
}

/// The shards that an index names, each once.
Result<std::vector<std::string>> shards_of_index(FileSystem& files, const std::string& folder) {
  const std::string path = join(folder, kIndex);
  QUIRE_TRY(const Json index, read_json(files, path, kMaxIndexBytes));
  const Json* map = index.find("weight_map");
  if (map == nullptr || !map->is_object() || map->as_object()->empty()) {
    return Error{ErrorCode::kBadFile, fmt::format("{} has no weight_map with tensors", path)};
  }
  std::set<std::string> names;
  for (const auto& [tensor, shard] : *map->as_object()) {
    const std::string* name = shard.as_string();
    if (name == nullptr || !is_plain_name(*name)) {
      return Error{ErrorCode::kBadFile, fmt::format("{} puts tensor {} into no file of the folder",
                                                    path, printable(tensor))};
    }
    names.insert(*name);
  }
  return std::vector<std::string>(names.begin(), names.end());
}

/// Without an index: all safetensors files, and of a numbered set every part.
Result<std::vector<std::string>> shards_by_name(FileSystem& files, const std::string& folder,
                                                const std::vector<std::string>& names) {
  std::vector<std::string> shards;
  for (const std::string& name : names) {
    if (!name.ends_with(kSafetensors) || !files.is_file(join(folder, name))) continue;
    if (const auto part = parse_shard_name(join(folder, name), kSafetensors)) {
      QUIRE_TRY_VOID(check_no_part_missing(files, *part));
    }
    shards.push_back(name);
  }
  return shards;
}

/// Paths of the files with the weights; empty if the folder has none. The order of preference is
/// that of Hugging Face transformers.
Result<std::vector<std::string>> weight_files(FileSystem& files, const std::string& folder) {
  if (files.is_file(join(folder, kSingle))) return std::vector{join(folder, kSingle)};
  std::vector<std::string> names;
  if (files.is_file(join(folder, kIndex))) {
    QUIRE_TRY(names, shards_of_index(files, folder));
  } else {
    QUIRE_TRY(const std::vector<std::string> all, files.list(folder));
    QUIRE_TRY(names, shards_by_name(files, folder, all));
  }
  std::vector<std::string> paths;
  for (const std::string& name : names) {
    paths.push_back(join(folder, name));
    if (!files.is_file(paths.back())) {
      return Error{ErrorCode::kNotFound,
                   fmt::format("{} is missing, one of the {} files that hold the model's tensors",
                               paths.back(), names.size())};
    }
  }
  return paths;
}

/// The GGUF models of a folder: single files, and the first part of each split set.
Result<std::vector<std::string>> gguf_models(FileSystem& files, const std::string& folder) {
  QUIRE_TRY(const std::vector<std::string> names, files.list(folder));
  std::vector<std::string> models;
  for (const std::string& name : names) {
    const auto part = parse_shard_name(name, kGguf);
    const bool first = !part || part->number == 1;
    if (name.ends_with(kGguf) && first && files.is_file(join(folder, name))) models.push_back(name);
  }
  return models;
}

/// The snapshot that a model's folder in the hub's cache stands for. // huggingface_hub's docs,
/// "Understand caching"
Result<std::string> snapshot_of(FileSystem& files, const std::string& folder) {
  const std::string snapshots = join(folder, kSnapshots);
  QUIRE_TRY(const std::vector<std::string> names, files.list(snapshots));
  const std::string ref = join(folder, "refs/main");
  if (files.is_file(ref)) {
    QUIRE_TRY(std::string name, files.read(ref, kMaxRefBytes));
    while (!name.empty() && std::isspace(static_cast<unsigned char>(name.back()))) name.pop_back();
    if (std::ranges::find(names, name) != names.end()) return join(snapshots, name);
  }
  if (names.size() == 1) return join(snapshots, names.front());
  return Error{
      ErrorCode::kUsage,
      fmt::format("{} holds {} snapshots of a model{}", snapshots, names.size(),
                  names.empty() ? "" : "; name one, such as " + join(snapshots, names[0]))};
}

/// One sentence on why a folder is no model.
Error no_model_in(FileSystem& files, const std::string& folder, bool has_config,
                  const std::vector<std::string>& ggufs) {
  if (ggufs.size() > 1) {
    return {ErrorCode::kUsage, fmt::format("{} holds {} GGUF models; name one, such as {}", folder,
                                           ggufs.size(), join(folder, ggufs.front()))};
  }
  if (!has_config) {
    return {ErrorCode::kNotFound,
            fmt::format("{} is no model: it has neither config.json nor a GGUF file", folder)};
  }
  const bool pickled = files.is_file(join(folder, "pytorch_model.bin")) ||
                       files.is_file(join(folder, "pytorch_model.bin.index.json"));
  return {ErrorCode::kNotFound,
          fmt::format("{} has config.json, but no safetensors file{}", folder,
                      pickled ? "; Quire does not read pytorch_model.bin, so convert it" : "")};
}

/// One sentence on a file that is not GGUF, by how it starts.
Error not_a_model(const std::string& path, std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::string why = "neither a GGUF file nor a Hugging Face folder";
  if (text.empty()) {
    why = "empty";
  } else if (text.starts_with("version https://git-lfs")) {
    why = "a Git LFS pointer, not the file itself; fetch it with `git lfs pull`";
  } else if (text.starts_with("PK") || text.starts_with("\x80\x02")) {
    why = "a PyTorch checkpoint, which Quire does not read; convert it to safetensors or GGUF";
  } else if (text.size() > 8 && text[8] == '{') {
    why = "a safetensors file by itself; give the folder that holds it together with config.json";
  } else if (text.starts_with("tjgg") || text.starts_with("fmgg") || text.starts_with("lmgg")) {
    why = "in a GGML format older than GGUF; convert the model again";
  } else if (text.starts_with("<")) {
    why = "a web page, not a model; the download went wrong";
  }
  return {ErrorCode::kUnsupported, fmt::format("{} is {}", path, why)};
}

}  // namespace

Result<ModelFiles> ModelFiles::open(FileSystem& files, const std::string& path, OpenMode mode) {
  if (!files.is_directory(path)) return open_gguf(files, path, mode);
  if (!files.is_directory(join(path, kSnapshots))) return open_folder(files, path, mode);
  QUIRE_TRY(const std::string snapshot, snapshot_of(files, path));
  return open_folder(files, snapshot, mode);
}

Result<ModelFiles> ModelFiles::open_gguf(FileSystem& files, const std::string& path,
                                         OpenMode mode) {
  {
    QUIRE_TRY(const std::unique_ptr<MappedFile> start, files.map(path));
    if (!GgufFile::has_magic(start->bytes())) return not_a_model(path, start->bytes());
  }
  QUIRE_TRY(GgufFile file, GgufFile::open(files, path, mode));
  ModelFiles model;
  model.kind_ = Kind::kGguf;
  model.path_ = path;
  model.files_ = &files;
  model.missing_ = file.missing();
  model.gguf_ = std::move(file).take_metadata();
  model.tensors_ = std::move(file).take_tensors();
  return model;
}

Result<ModelFiles> ModelFiles::open_folder(FileSystem& files, const std::string& path,
                                           OpenMode mode) {
  ModelFiles model;
  model.kind_ = Kind::kHuggingFace;
  model.path_ = path;
  model.files_ = &files;
  QUIRE_TRY(model.config_, read_json_object_if_there(files, join(path, kConfig)));
  QUIRE_TRY(model.generation_config_,
            read_json_object_if_there(files, join(path, kGenerationConfig)));

  auto weights = weight_files(files, path);
  if (!weights && mode == OpenMode::kWeights) return std::move(weights).error();
  const bool has_weights = weights && !weights->empty();
  if (!weights) model.missing_ = weights.error().message;
  if (!model.config_ || !has_weights) {
    QUIRE_TRY(const std::vector<std::string> ggufs, gguf_models(files, path));
    if (ggufs.size() == 1 && !has_weights) return open_gguf(files, join(path, ggufs[0]), mode);
    // A folder with a tokenizer alone can still count tokens.
    const bool has_anything =
        model.config_ || has_weights || files.is_file(join(path, "tokenizer.json"));
    if (mode == OpenMode::kWeights || !has_anything) {
      return has_weights ? Error{ErrorCode::kNotFound, fmt::format("{} has no config.json", path)}
                         : no_model_in(files, path, model.config_.has_value(), ggufs);
    }
  }
  if (!has_weights) return model;
  auto tensors = open_safetensors(files, *weights);
  if (!tensors && mode == OpenMode::kWeights) return std::move(tensors).error();
  if (tensors) {
    model.tensors_ = std::move(*tensors);
  } else {
    model.missing_ = tensors.error().message;
  }
  return model;
}

Result<std::optional<MappedText>> ModelFiles::read_sibling(std::string_view name) const {
  QUIRE_CHECK(is_plain_name(name), "a sibling is named without a path");
  const std::string path = join(path_, name);
  if (kind_ == Kind::kGguf || !files_->is_file(path)) return std::optional<MappedText>();
  QUIRE_TRY(std::unique_ptr<MappedFile> mapping, files_->map(path));
  return std::optional<MappedText>(std::move(mapping));
}

}  // namespace quire::formats
