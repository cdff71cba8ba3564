// tokenizer.h: text becomes token ids and back, exactly as the model's makers meant.
//
// Made from a GGUF file's metadata or from tokenizer.json; the ids are Hugging Face's, id for id.
// A name, component or model type that we do not implement is refused by name, never approximated.
// The text may hold any bytes: ill-formed UTF-8 is encoded byte by byte. Time is linear in the text
// but for a logarithm. Immutable after load: any number of threads may use one Tokenizer.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "formats/gguf_metadata.h"

namespace quire::context {

/// Bytes [begin, end) of a text.
struct ByteRange {
  size_t begin = 0;
  size_t end = 0;
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

/// What happens to special tokens that are spelled out in a text. User-defined added tokens
/// ("<think>") match either way, as in Hugging Face.
enum class Special {
  kParse,  // "<|im_end|>" becomes that control token
  kPlain,  // "<|im_end|>" is text like any other
};

/// Special tokens in a decoded text.
enum class SpecialText { kShow, kSkip };

enum class TokenKind : uint8_t {
  kNormal,
  kUnknown,      // stands for text that the vocabulary cannot express; special
  kControl,      // never text: turn markers, BOS, EOS; special
  kUserDefined,  // matched as a whole wherever it occurs
  kUnused,
  kByte,  // one raw byte
};

class Tokenizer {
 public:
  /// From `tokenizer.ggml.*` and `tokenizer.chat_template`. Copies what it needs.
  static Result<Tokenizer> from_gguf(const formats::GgufMetadata& metadata);

  /// From the texts of tokenizer.json and tokenizer_config.json ("" if there is none).
  static Result<Tokenizer> from_json(std::string_view tokenizer_json,
                                     std::string_view tokenizer_config_json = {});

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  /// The longest text that can be encoded.
  static constexpr size_t kMaxTextBytes = size_t{1} << 30;

  /// The ids of a text. Adds neither BOS nor EOS: see prefix() and suffix(). A byte that a
  /// byte-level vocabulary lacks vanishes, as in Hugging Face. Requires at most kMaxTextBytes.
  std::vector<TokenId> encode(std::string_view text, Special special) const;

  /// The ids of a rendered prompt: special tokens are parsed, except where they touch one of the
  /// `inert` ranges (text that came from a message). The ranges ascend and do not overlap.
  std::vector<TokenId> encode(std::string_view text, std::span<const ByteRange> inert) const;

  /// The same, and for each token the bytes of `text` it stands for: ascending, neighbours meet,
  /// and together they cover the text. Where a normalizer changed the text (NFC), the tokens of a
  /// changed stretch share it as best they can.
  struct Encoding {
    std::vector<TokenId> ids;
    std::vector<ByteRange> ranges;
  };
  Encoding encode_with_ranges(std::string_view text, std::span<const ByteRange> inert) const;

  /// The bytes a token stands for; they need not be whole characters. A special token's are its
  /// spelling. Empty for ids beyond the vocabulary, which models have where they pad their head.
  std::string_view piece(TokenId id) const;

  /// The bytes of these tokens, as Hugging Face's decode() up to the treatment of ill-formed UTF-8:
  /// here every byte is kept.
  std::string decode(std::span<const TokenId> ids, SpecialText special) const;

  int32_t vocab_size() const;  // one more than the largest id
  bool is_valid(TokenId id) const { return id.value >= 0 && id.value < vocab_size(); }
  /// kUnused beyond the vocabulary.
  TokenKind kind(TokenId id) const;
  /// Control and unknown tokens: what decode() can skip and message text cannot contain.
  bool is_control(TokenId id) const;
  /// The token that the file spells exactly so ("<|im_end|>", "\u0120the"), whatever its kind.
  std::optional<TokenId> find(std::string_view spelled) const;

  std::optional<TokenId> bos() const;
  std::optional<TokenId> eos() const;
  /// Ids at which an answer ends, ascending: EOS, and whatever the file calls end of turn.
  std::span<const TokenId> end_of_generation() const;
  bool is_end_of_generation(TokenId id) const;

  /// What the model expects before and after a text: most often BOS, or nothing.
  std::span<const TokenId> prefix() const;
  std::span<const TokenId> suffix() const;
  /// Whether the prefix starts with BOS, the suffix ends with EOS.
  bool add_bos() const { return !prefix().empty() && bos() == prefix().front(); }
  bool add_eos() const { return !suffix().empty() && eos() == suffix().back(); }
  /// Whether decode() drops one space at the start of a text, because encode() adds it
  /// (SentencePiece).
  bool add_space_prefix() const;

  /// Jinja source, if the file holds one.
  const std::optional<std::string>& chat_template() const;
  /// Texts of the special tokens by their template variable: {"bos_token", "<s>"}.
  std::span<const std::pair<std::string, std::string>> special_tokens() const;

  /// "bpe (pre smollm)", "sentencepiece bpe": for people.
  std::string_view description() const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

}  // namespace quire::context
