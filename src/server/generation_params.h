// generation_params.h: the parameters that say how to generate, as OpenAI and llama-server name
// them.
//
// Every value is checked against its range; what is out of it, of a wrong type or not supported is
// refused by the name of its parameter. Pure.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "context/tokenizer.h"
#include "engine/generate.h"
#include "engine/model.h"
#include "server/fields.h"

namespace quire::server {

inline constexpr int64_t kMostChoices = 8;
inline constexpr size_t kMostStops = 16;
inline constexpr size_t kMostStopBytes = 256;
inline constexpr size_t kMostBiases = 1024;
inline constexpr int64_t kMostTopLogprobs = 20;

struct GenerationParams {
  engine::GenerateOptions options;
  int32_t choices = 1;
  bool stream = false;
  bool include_usage = false;
  bool return_progress = false;
  bool return_tokens = false;
  engine::PrefixReuse reuse = engine::PrefixReuse::kOn;
  std::string salt;
};

/// What requests are measured against.
struct GenerationDefaults {
  engine::SamplingOptions sampling;  // what the model's files ask for
  int32_t vocab = 0;
  std::vector<TokenId> end_tokens;  // that `ignore_eos` forbids
  std::optional<int64_t> max_output;
  uint64_t seed = 0;  // of a request that names none
};

engine::SamplingOptions sampling_defaults(const engine::Model& model);
/// All tokens at which answers end.
std::vector<TokenId> all_end_tokens(const engine::Model& model);

/// Everything but `logprobs`, which differs from route to route. Mistakes stay in `fields`.
GenerationParams read_generation(Fields& fields, const GenerationDefaults& defaults);

/// `max_tokens` or `max_completion_tokens`.
std::optional<int64_t> read_max_tokens(Fields& fields);
/// Temperature, top-k and the like; `sampling` comes with the defaults.
void read_sampling(Fields& fields, engine::SamplingOptions& sampling);
/// `stop`: a string or some of them.
std::vector<std::string> read_stops(Fields& fields);

}  // namespace quire::server
