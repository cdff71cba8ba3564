#include "context/tokenizer/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>

#include "context/tokenizer/byte_level.h"
#include "formats/printable.h"

namespace quire::context {
namespace {

/// What merging works on; empty if merging may not touch the token.
std::string model_text_of(const TokenEntry& token, Spelling spelling) {
  if (!token.mergeable) return "";
  if (spelling != Spelling::kByteLevel) return std::string(token.spelled);
  return byte_level_decode(token.spelled).value_or("");
}

std::string piece_of(const TokenEntry& token, Spelling spelling) {
  if (const auto byte = byte_token_value(token.spelled); byte && token.kind == TokenKind::kByte) {
    return std::string(1, static_cast<char>(*byte));
  }
  if (is_special(token.kind)) return std::string(token.spelled);
  if (spelling == Spelling::kMetaspace) return metaspace_decode(token.spelled);
  if (spelling == Spelling::kByteLevel && token.kind != TokenKind::kUserDefined) {
    if (auto decoded = byte_level_decode(token.spelled)) return *std::move(decoded);
  }
  return std::string(token.spelled);
}

}  // namespace

std::string metaspace_decode(std::string_view spelled) {
  std::string text;
  for (size_t at = 0; at < spelled.size();) {
    const bool is_space = spelled.substr(at).starts_with(kMetaspace);
    text.push_back(is_space ? ' ' : spelled[at]);
    at += is_space ? kMetaspace.size() : 1;
  }
  return text;
}

Vocabulary::Vocabulary()
    : spelled_(std::make_unique<StringList>()),
      texts_(std::make_unique<StringList>()),
      pieces_(std::make_unique<StringList>()),
      spelled_index_(spelled_.get()),
      mergeable_(texts_.get()),
      byte_tokens_(256, -1) {}

Result<Vocabulary> Vocabulary::create(std::span<const TokenEntry> tokens, Spelling spelling) {
  Vocabulary vocabulary;
  size_t bytes = 0;
  for (const TokenEntry& token : tokens) bytes += token.spelled.size();
  for (StringList* list :
       {vocabulary.spelled_.get(), vocabulary.texts_.get(), vocabulary.pieces_.get()}) {
    list->reserve(tokens.size(), bytes);
  }
  vocabulary.spelled_index_.reserve(tokens.size());
  vocabulary.mergeable_.reserve(tokens.size());
  vocabulary.kinds_.reserve(tokens.size());
  for (size_t id = 0; id < tokens.size(); ++id) {
    QUIRE_TRY_VOID(vocabulary.add(static_cast<int32_t>(id), tokens[id], spelling));
  }
  return vocabulary;
}

Result<void> Vocabulary::add(int32_t id, const TokenEntry& token, Spelling spelling) {
  spelled_->push_back(token.spelled);
  kinds_.push_back(token.kind);
  texts_->push_back(model_text_of(token, spelling));
  pieces_->push_back(piece_of(token, spelling));
  if (!token.spelled.empty() && !spelled_index_.insert(id)) {
    return Error{
        ErrorCode::kBadFile,
        fmt::format("The tokenizer spells tokens {} and {} alike: {}.",
                    spelled_index_.find(token.spelled), id, formats::printable(token.spelled))};
  }
  if (token.kind == TokenKind::kByte) return note_byte(id, token.spelled);
  const std::string_view text = model_text(id);
  if (text.empty()) return {};
  mergeable_.insert(id);
  if (spelling == Spelling::kByteLevel && text.size() == 1) {
    byte_tokens_[static_cast<uint8_t>(text[0])] = id;
  }
  return {};
}

Result<void> Vocabulary::note_byte(int32_t id, std::string_view spelled) {
  const auto byte = byte_token_value(spelled);
  if (!byte) {
    return Error{ErrorCode::kBadFile,
                 fmt::format("Token {} of the tokenizer is marked as a byte, but {} names none.",
                             id, formats::printable(spelled))};
  }
  byte_tokens_[*byte] = id;
  return {};
}

bool Vocabulary::has_all_byte_tokens() const {
  return std::ranges::none_of(byte_tokens_, [](int32_t id) { return id < 0; });
}

}  // namespace quire::context
