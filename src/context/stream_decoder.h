// stream_decoder.h: the text of tokens as they are generated, never ending in half a character.
//
// A character may be spread over several tokens; its bytes are held back until it is whole. Bytes
// that can never become one appear as U+FFFD, so that all text is well-formed UTF-8.
// Holds a reference to its Tokenizer. Use one from one thread at a time.
#pragma once
#include <string>
#include <utility>

#include "context/tokenizer.h"

namespace quire::context {

class StreamDecoder {
 public:
  /// Where the tokens begin: SentencePiece models drop the space that starts a text.
  enum class Start { kOfText, kContinuation };

  StreamDecoder(const Tokenizer& tokenizer, SpecialText special, Start start)
      : tokenizer_(&tokenizer), special_(special), start_(start) {}

  /// The text that this token completes, often empty.
  std::string push(TokenId id);

  /// The bytes of an unfinished character, 0 to 3.
  const std::string& held() const { return held_; }

  /// Ends the text: drops and returns what was held back. The next token starts a continuation.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  SpecialText special_;
  Start start_;
  std::string held_;
};

}  // namespace quire::context
