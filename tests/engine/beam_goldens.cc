#include "engine/beam_goldens.h"

#include "base/check.h"
#include "base/file_system.h"
#include "formats/json.h"

namespace quire::engine {
namespace {

using formats::Json;

const Json& member(const Json& json, std::string_view key) {
  const Json* found = json.find(key);
  QUIRE_CHECK(found != nullptr, "a golden without a member that it needs");
  return *found;
}

std::vector<TokenId> ids(const Json& json) {
  std::vector<TokenId> ids;
  for (const Json& id : *json.as_array()) {
    ids.push_back(TokenId{static_cast<int32_t>(id.as_int().value())});
  }
  return ids;
}

EarlyStopping early_stopping(const Json& json) {
  if (json.is_string()) return EarlyStopping::kNever;
  return json.as_bool().value() ? EarlyStopping::kYes : EarlyStopping::kNo;
}

}  // namespace

std::vector<BeamGolden> read_beam_goldens(const std::string& model) {
  const std::string path = QUIRE_TEST_DATA "/beams/" + model + ".json";
  const auto text = real_file_system().read(path, uint64_t{1} << 24);
  QUIRE_CHECK(text.ok(), path.c_str());
  const Json json = Json::parse(*text, path).value();
  const Json::Array& prompts = *member(json, "prompts").as_array();
  std::vector<BeamGolden> goldens;
  for (const Json& c : *member(json, "cases").as_array()) {
    const auto prompt = static_cast<size_t>(member(c, "prompt").as_int().value());
    BeamGolden golden{.name = c.dump().substr(0, 160), .prompt = ids(prompts.at(prompt))};
    golden.options.rules = {.beams = static_cast<int32_t>(member(c, "beams").as_int().value()),
                            .length_penalty = member(c, "length_penalty").as_double().value(),
                            .early_stopping = early_stopping(member(c, "early_stopping"))};
    golden.options.max_tokens = member(c, "max_tokens").as_int().value();
    golden.options.end_tokens = ids(member(c, "end_tokens"));
    for (const Json& answer : *member(c, "answers").as_array()) {
      golden.answers.push_back(
          {ids(member(answer, "tokens")), member(answer, "score").as_double().value()});
    }
    goldens.push_back(std::move(golden));
  }
  return goldens;
}

}  // namespace quire::engine
