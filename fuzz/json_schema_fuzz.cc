// json_schema_fuzz.cc: any text as a JSON schema ends in an error, or in a constraint under which
// whatever is said is JSON and never gets stuck.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"
#include "engine/json_constraint.h"
#include "formats/json.h"

namespace {

using quire::TokenId;
using quire::context::Tokenizer;
using quire::engine::JsonConstraints;
using quire::formats::Json;

/// Every byte a token, as byte-level vocabularies spell them, some longer ones, and an end.
std::string vocabulary_json() {
  Json vocabulary{Json::Object{}};
  int64_t id = 0;
  uint32_t stand_in = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool itself = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) ||
                        (byte >= 0xAE && byte <= 0xFF);
    std::string spelled;
    quire::utf8_append(spelled, itself ? byte : stand_in++);
    vocabulary.set(spelled, id++);
  }
  for (const char* longer : {"\",", "\":", "{\"", "\"}", "}}", "true", "12", "]}"}) {
    vocabulary.set(longer, id++);
  }
  return R"({"model": {"type": "BPE", "merges": [], "vocab": )" + vocabulary.dump() +
         R"(}, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
             "decoder": {"type": "ByteLevel"}, "added_tokens": [{"id": )" +
         std::to_string(id) +
         R"(, "content": "<end>", "special": true, "single_word": false, "lstrip": false,
             "rstrip": false, "normalized": false}]})";
}

const Tokenizer& tokenizer() {
  static const Tokenizer kTokenizer =
      Tokenizer::from_json(vocabulary_json(), R"({"eos_token": "<end>"})").value();
  return kTokenizer;
}

/// Says 64 tokens, each chosen by the bytes of the input.
void speak(quire::engine::TokenConstraint& constraint, std::string_view choices) {
  std::string text;
  size_t state = choices.size();
  for (int said = 0; said < 64; ++said) {
    std::vector<float> logits(static_cast<size_t>(tokenizer().vocab_size()), 0.0F);
    constraint.mask(logits);
    std::vector<TokenId> allowed;
    for (size_t i = 0; i < logits.size(); ++i) {
      if (!std::isinf(logits[i])) allowed.push_back(TokenId{static_cast<int32_t>(i)});
    }
    QUIRE_CHECK(!allowed.empty(), "an answer is stuck");
    state = state * 31 + static_cast<uint8_t>(choices[state % choices.size()]);
    const TokenId end = tokenizer().end_of_generation().front();
    const bool may_end = std::find(allowed.begin(), allowed.end(), end) != allowed.end();
    const TokenId chosen = may_end && state % 3 == 0 ? end : allowed[state % allowed.size()];
    constraint.accept(chosen);
    if (chosen == end) {
      QUIRE_CHECK(Json::parse(text, "an answer").ok(), "a finished answer is JSON");
      return;
    }
    text += tokenizer().piece(chosen);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const JsonConstraints kConstraints = JsonConstraints::create(tokenizer()).value();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto schema = Json::parse(text, "the input");
  if (!schema.ok()) return 0;
  const auto constraint = kConstraints.schema(*schema);
  if (!constraint.ok()) {
    QUIRE_CHECK(!constraint.error().message.empty(), "a refusal says why");
    return 0;
  }
  for (int round = 0; round < 2; ++round) speak(*(*constraint)->fresh(), text.substr(round));
  return 0;
}
