#include "cli/model_path.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>

namespace quire::cli {
namespace {

bool exists(FileSystem& files, const std::string& path) {
  return files.is_file(path) || files.is_directory(path);
}

/// NAME-00001-of-0000N.gguf in the folder, for whatever N.
std::optional<std::string> first_of_split_set(FileSystem& files, const std::string& folder,
                                              const std::string& model) {
  const auto names = files.list(folder);
  if (!names.ok()) return std::nullopt;
  const std::string start = model + "-00001-of-";
  for (const std::string& name : *names) {
    const bool is_first = name.starts_with(start) && name.ends_with(".gguf");
    if (is_first && name.size() == start.size() + std::string_view("00000.gguf").size()) {
      return folder + name;
    }
  }
  return std::nullopt;
}

}  // namespace

Result<std::string> resolve_model(const Environment& env, const std::string& model) {
  if (model.empty()) return Error{ErrorCode::kUsage, "the MODEL argument is empty"};
  if (exists(env.files, model)) return model;
  if (model.find('/') != std::string::npos) {
    return Error{ErrorCode::kNotFound, fmt::format("there is no file or folder {}", model)};
  }
  const std::string folder = env.home + "/models/";
  for (const std::string& candidate : {folder + model, folder + model + ".gguf"}) {
    if (exists(env.files, candidate)) return candidate;
  }
  if (const auto first = first_of_split_set(env.files, folder, model)) return *first;
  return Error{ErrorCode::kNotFound,
               fmt::format("there is no model '{0}': no such file or folder here, and neither {0} "
                           "nor {0}.gguf in {1}",
                           model, folder)};
}

Result<std::string> only_model(const Environment& env, const std::vector<std::string>& models,
                               std::string_view command) {
  if (models.empty()) {
    return Error{
        ErrorCode::kUsage,
        fmt::format("which model? 'quire {0} MODEL': a GGUF file, a Hugging Face folder or "
                    "a name in $QUIRE_HOME/models ('quire {0} --help')",
                    command)};
  }
  if (models.size() > 1) {
    return Error{ErrorCode::kUsage, fmt::format("one model at a time: both {} and {} were given",
                                                models[0], models[1])};
  }
  return resolve_model(env, models[0]);
}

}  // namespace quire::cli
