// tokenizer_spec.h: everything a file says about a tokenizer, before it is built and checked.
//
// The common form that the GGUF and the tokenizer.json reader produce. Holds views into the file:
// build a Tokenizer while it is open. A plain struct.
#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "context/tokenizer/added_tokens.h"
#include "context/tokenizer/bpe.h"
#include "context/tokenizer/normalizer.h"
#include "context/tokenizer/pretokenizer.h"
#include "context/tokenizer/vocabulary.h"

namespace quire::context {

struct TokenizerSpec {
  std::string description;

  std::vector<TokenEntry> tokens;  // by id
  std::deque<std::string> owned;   // spellings that are not in the file; addresses stay
  std::vector<AddedToken> added;
  BpeOptions bpe;
  /// Exactly one of these two ranks the merges.
  std::vector<std::pair<std::string_view, std::string_view>> merges;
  std::optional<std::vector<float>> scores;

  std::vector<NormalizerStep> normalizer;
  std::vector<PreTokenizerStep> pre_tokenizer;

  /// What the model expects before and after a text.
  std::vector<int32_t> prefix;
  std::vector<int32_t> suffix;
  bool space_prefix = false;  // decoding drops one space at the start of a text
  std::optional<int32_t> bos;
  std::optional<int32_t> eos;
  std::vector<int32_t> more_ends;  // further ids that end an answer
  std::optional<std::string> chat_template;
  std::vector<std::pair<std::string, std::string>> special_tokens;
};

}  // namespace quire::context
