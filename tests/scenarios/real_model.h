// real_model.h: the real models that `./dev model` brings, for tests that skip without them.
#pragma once
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/tiny_models.h"

namespace quire::engine {

/// The file of "smollm2" or "gemma3", if it is there.
inline std::optional<std::string> real_model(const std::string& name) {
  const char* folder = std::getenv("QUIRE_TEST_MODELS");
  const char* quire_home = std::getenv("QUIRE_HOME");
  const char* home = std::getenv("HOME");
  std::string models;
  if (folder != nullptr) {
    models = folder;
  } else if (quire_home != nullptr) {
    models = std::string(quire_home) + "/models";
  } else if (home != nullptr) {
    models = std::string(home) + "/.local/share/quire/models";
  }
  const std::string path = models + "/" + name + ".gguf";
  if (!std::filesystem::exists(path)) return std::nullopt;
  return path;
}

/// The text that comes with a real model's goldens, in its tokens.
inline std::vector<TokenId> real_prose(const std::string& name) {
  std::vector<TokenId> tokens;
  for (const int32_t id : read_npy_ints(QUIRE_TEST_DATA "/real/" + name + "/prose.ids.npy")) {
    tokens.push_back(TokenId{id});
  }
  return tokens;
}

}  // namespace quire::engine

#define QUIRE_SKIP_WITHOUT(model, path) \
  if (!(path)) GTEST_SKIP() << "./dev model " << (model) << " brings the model for this test"
