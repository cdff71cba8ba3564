// readers.h: from a model's files to a TokenizerSpec.
//
// Whatever a file holds, a reader returns a spec or one sentence. The spec holds views into what
// was passed in. Pure functions; any thread.
#pragma once
#include "base/result.h"
#include "context/tokenizer/tokenizer_spec.h"
#include "formats/gguf_metadata.h"
#include "formats/json.h"

namespace quire::context {

Result<TokenizerSpec> read_gguf_tokenizer(const formats::GgufMetadata& metadata);

/// `config` is tokenizer_config.json, or null.
Result<TokenizerSpec> read_json_tokenizer(const formats::Json& tokenizer,
                                          const formats::Json& config);

/// What a pre-tokenizer's name in tokenizer.ggml.pre stands for.
struct NamedPreTokenizer {
  std::vector<NormalizerStep> normalizer;
  std::vector<PreTokenizerStep> steps;
  bool ignore_merges = false;
  bool add_bos = false;  // unless the file says otherwise
};

/// All names, in no particular order.
std::vector<std::string_view> pre_tokenizer_names();

/// Refuses a name that is not known.
Result<NamedPreTokenizer> pre_tokenizer_by_name(std::string_view name);

/// The split by GPT-2's pattern, which ByteLevel implies.
Result<PreTokenizerStep> gpt2_split();

/// Numeric characters, one by one or in runs.
Result<PreTokenizerStep> digits_split(SplitBehavior behavior);

/// Unicode's punctuation and ASCII's.
Result<PreTokenizerStep> punctuation_split(SplitBehavior behavior);

}  // namespace quire::context
