#include "engine/tiny_models.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include "base/file_system.h"
#include "formats/json.h"

namespace quire::engine {
namespace {

namespace fs = std::filesystem;
using formats::Json;

const std::string kTiny = QUIRE_TEST_DATA "/tiny";

std::string read_or_die(const std::string& path) {
  auto text = real_file_system().read(path, uint64_t{1} << 32);
  QUIRE_CHECK(text.ok(), path.c_str());
  return *text;
}

std::vector<int64_t> integers(const Json& json, std::string_view key) {
  std::vector<int64_t> numbers;
  const Json* array = json.find(key);
  QUIRE_CHECK(array != nullptr && array->is_array(), "golden without a list");
  for (const Json& value : *array->as_array()) numbers.push_back(value.as_int().value());
  return numbers;
}

template <class T>
std::vector<T> read_npy(const std::string& path, std::string_view type) {
  const std::string file = read_or_die(path);
  QUIRE_CHECK(file.starts_with("\x93NUMPY\x01"), "not a .npy file of version 1");
  const size_t header = static_cast<uint8_t>(file[8]) + 256u * static_cast<uint8_t>(file[9]);
  QUIRE_CHECK(file.substr(10, header).find(type) != std::string::npos, "unexpected element type");
  const size_t begin = 10 + header;
  std::vector<T> numbers((file.size() - begin) / sizeof(T));
  std::memcpy(numbers.data(), file.data() + begin, numbers.size() * sizeof(T));
  return numbers;
}

}  // namespace

std::vector<TinyModel> tiny_models() {
  std::vector<TinyModel> models;
  for (const auto& entry : fs::directory_iterator(kTiny)) {
    const std::string folder = entry.path().string();
    const std::string name = entry.path().filename().string();
    if (fs::exists(folder + "/config.json")) {
      models.push_back({name, folder, folder + "/golden.json"});
      continue;
    }
    for (const auto& variant : fs::directory_iterator(folder)) {
      if (variant.path().extension() != ".json") continue;
      const Json golden = Json::parse(read_or_die(variant.path().string()), "golden").value();
      models.push_back({name + "/" + variant.path().stem().string(),
                        folder + "/" + *golden.find("file")->as_string(), variant.path().string()});
    }
  }
  std::ranges::sort(models, {}, &TinyModel::name);
  return models;
}

Golden read_golden(const TinyModel& model) {
  const Json json = Json::parse(read_or_die(model.golden), model.golden).value();
  Golden golden;
  for (const int64_t id : integers(json, "tokens")) {
    golden.tokens.push_back(TokenId{static_cast<int32_t>(id)});
  }
  golden.positions = integers(json, "positions");
  const fs::path beside = fs::path(model.golden).parent_path() / *json.find("logits")->as_string();
  golden.logits = read_npy_floats(beside.string());
  return golden;
}

double worst_share_of_rms(const Golden& golden, std::span<const float> logits) {
  const size_t vocab = golden.logits.size() / golden.positions.size();
  double worst = 0.0;
  for (size_t i = 0; i < golden.positions.size(); ++i) {
    double squares = 0.0;
    double largest = 0.0;
    for (size_t v = 0; v < vocab; ++v) {
      const double expected = golden.logits[i * vocab + v];
      const double got = logits[static_cast<size_t>(golden.positions[i]) * vocab + v];
      if (!std::isfinite(got)) return std::numeric_limits<double>::infinity();
      squares += expected * expected;
      largest = std::max(largest, std::abs(got - expected));
    }
    worst = std::max(worst, largest / std::sqrt(squares / static_cast<double>(vocab)));
  }
  return worst;
}

std::unique_ptr<Model> load_or_die(const std::string& path) {
  auto model = Model::load(real_file_system(), path, {});
  QUIRE_CHECK(model.ok(), model.ok() ? "" : model.error().message.c_str());
  return std::move(*model);
}

std::unique_ptr<Engine> engine_or_die(const Model& model, EngineOptions options) {
  if (options.memory_bytes == 0) options.memory_bytes = int64_t{4} << 30;
  auto engine = Engine::create(model, options);
  QUIRE_CHECK(engine.ok(), engine.ok() ? "" : engine.error().message.c_str());
  return std::move(*engine);
}

std::vector<float> all_logits(Engine& engine, Sequence& sequence, std::span<const TokenId> tokens,
                              size_t chunk) {
  const auto vocab = static_cast<size_t>(engine.model().config().vocab);
  std::vector<float> logits(tokens.size() * vocab);
  for (size_t done = 0; done < tokens.size(); done += chunk) {
    const size_t take = std::min(chunk, tokens.size() - done);
    const StepItem item{.sequence = &sequence,
                        .tokens = tokens.subspan(done, take),
                        .logits = StepItem::Logits::kAll};
    const auto stepped =
        engine.step({&item, 1}, std::span(logits).subspan(done * vocab, take * vocab));
    QUIRE_CHECK(stepped.ok(), stepped.ok() ? "" : stepped.error().message.c_str());
    engine.check();
  }
  return logits;
}

std::vector<float> read_npy_floats(const std::string& path) {
  return read_npy<float>(path, "<f4");
}

std::vector<int32_t> read_npy_ints(const std::string& path) {
  return read_npy<int32_t>(path, "<i4");
}

std::string test_name(const TinyModel& model) {
  std::string name = model.name;
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

}  // namespace quire::engine
