// vocabulary.h: the tokens of a model: what each is called, what bytes it stands for, of what kind.
//
// Knows two spellings. *Model text* is what the merging works on: raw bytes in a byte-level
// vocabulary, characters with "▁" for space otherwise. The *piece* is the text a token decodes to.
// Immutable after create; any thread.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "context/tokenizer.h"
#include "context/tokenizer/string_index.h"

namespace quire::context {

/// How tokens spell text.
enum class Spelling {
  kByteLevel,   // GPT-2's characters for bytes
  kMetaspace,   // "▁" is a space, "<0x0A>" (kind kByte) a byte
  kCharacters,  // as it stands
};

struct TokenEntry {
  std::string_view spelled;
  TokenKind kind = TokenKind::kUnused;
  bool mergeable = false;  // merging may produce it; never true for special tokens
};

class Vocabulary {
 public:
  /// Copies the strings. Refuses two tokens of the same spelling, and a kByte token that names no
  /// byte. Empty entries are holes.
  static Result<Vocabulary> create(std::span<const TokenEntry> tokens, Spelling spelling);

  int32_t size() const { return static_cast<int32_t>(kinds_.size()); }
  TokenKind kind(int32_t id) const { return kinds_[static_cast<size_t>(id)]; }
  std::string_view piece(int32_t id) const { return (*pieces_)[static_cast<size_t>(id)]; }
  std::string_view model_text(int32_t id) const { return (*texts_)[static_cast<size_t>(id)]; }

  /// The mergeable token whose model text this is, or -1.
  int32_t find_mergeable(std::string_view model_text) const { return mergeable_.find(model_text); }
  /// The token that is spelled so in the file, whatever its kind. -1 if there is none.
  int32_t find_spelled(std::string_view spelled) const { return spelled_index_.find(spelled); }
  /// The token for one raw byte ("<0x0A>", or "Ċ" in a byte-level vocabulary), or -1.
  int32_t byte_token(uint8_t byte) const { return byte_tokens_[byte]; }
  bool has_all_byte_tokens() const;

 private:
  Vocabulary();
  Result<void> add(int32_t id, const TokenEntry& token, Spelling spelling);
  Result<void> note_byte(int32_t id, std::string_view spelled);

  // On the heap, so that the indexes into them survive a move of the Vocabulary.
  std::unique_ptr<StringList> spelled_;
  std::unique_ptr<StringList> texts_;
  std::unique_ptr<StringList> pieces_;
  StringIndex spelled_index_;
  StringIndex mergeable_;
  std::vector<TokenKind> kinds_;
  std::vector<int32_t> byte_tokens_;  // [256]
};

/// U+2581, which stands for a space in SentencePiece's vocabularies.
inline constexpr std::string_view kMetaspace = "\u2581";

/// `spelled` with a space for each "▁".
std::string metaspace_decode(std::string_view spelled);

inline bool is_special(TokenKind kind) {
  return kind == TokenKind::kControl || kind == TokenKind::kUnknown;
}

}  // namespace quire::context
