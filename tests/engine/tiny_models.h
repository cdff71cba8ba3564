// tiny_models.h: the tiny random models of tests/data/tiny with what Hugging Face computes for
// them.
//
// Every model found there takes part in the oracle's and in law 1's tests: adding one adds its
// tests.
#pragma once
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "engine/engine.h"
#include "engine/model.h"

namespace quire::engine {

struct TinyModel {
  std::string name;    // "llama_tied", "llama_gguf/q4_1"
  std::string path;    // folder or file to load
  std::string golden;  // JSON file
  friend std::ostream& operator<<(std::ostream& out, const TinyModel& m) { return out << m.name; }
};

std::vector<TinyModel> tiny_models();

struct Golden {
  std::vector<TokenId> tokens;
  std::vector<int64_t> positions;
  std::vector<float> logits;  // [positions, vocab]
};
Golden read_golden(const TinyModel& model);

/// The largest error among a golden's logits, each as a share of its position's rms.
/// // logits: [tokens, vocab]
double worst_share_of_rms(const Golden& golden, std::span<const float> logits);

std::unique_ptr<Model> load_or_die(const std::string& path);
/// An engine with room for everything, unless `options` says otherwise.
std::unique_ptr<Engine> engine_or_die(const Model& model, EngineOptions options);

/// Logits of every token, appended in chunks of `chunk`. // [tokens, vocab]
std::vector<float> all_logits(Engine& engine, Sequence& sequence, std::span<const TokenId> tokens,
                              size_t chunk);

/// The numbers of a .npy file of little-endian float32 or int32, version 1.
std::vector<float> read_npy_floats(const std::string& path);
std::vector<int32_t> read_npy_ints(const std::string& path);

/// Names of the test parameters: letters, digits and underscores.
std::string test_name(const TinyModel& model);

}  // namespace quire::engine
