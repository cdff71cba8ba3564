// chunking.h: a document becomes pieces that a model can be given: whole paragraphs and sentences.
//
// Pieces are as long as the model's own tokenizer allows, and end where the text does: at a
// paragraph, else a sentence, else a line, else a word. No piece ends inside a character, and only
// white space lies between them. Pure functions; any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "context/tokenizer.h"

namespace quire::context {

struct TextChunk {
  size_t begin = 0;  // bytes of the text
  size_t end = 0;
  int64_t first_line = 1;  // counted from 1
  int64_t last_line = 1;
  int64_t tokens = 0;  // of the piece by itself
};

/// In order. Requires max_tokens > 0 and at most Tokenizer::kMaxTextBytes of text.
std::vector<TextChunk> cut_into_chunks(const Tokenizer& tokenizer, std::string_view text,
                                       int64_t max_tokens);

}  // namespace quire::context
