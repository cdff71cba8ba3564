// json_components.h: the parts of tokenizer.json around its model: normalizer, pre-tokenizer,
// post-processor and decoder.
//
// Each function takes the value of that key, null when there is none, and refuses by name what
// Quire does not implement. Pure functions; any thread.
#pragma once
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "context/tokenizer/normalizer.h"
#include "context/tokenizer/pretokenizer.h"
#include "formats/json.h"

namespace quire::context {

Result<std::vector<NormalizerStep>> read_normalizer(const formats::Json& json);

struct JsonPreTokenizer {
  std::vector<PreTokenizerStep> steps;
  bool byte_level = false;     // the model works on bytes
  bool as_characters = false;  // some steps see the bytes as GPT-2's characters
};
Result<JsonPreTokenizer> read_pre_tokenizer(const formats::Json& json);

/// Which tokens frame a text.
struct JsonPostProcessor {
  std::vector<int32_t> before;
  std::vector<int32_t> after;
};
Result<JsonPostProcessor> read_post_processor(const formats::Json& json);

struct JsonDecoder {
  bool metaspace = false;     // "▁" becomes a space
  bool strips_space = false;  // one space at the start of a text is dropped
};
Result<JsonDecoder> read_decoder(const formats::Json& json);

}  // namespace quire::context
