#include "context/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/utf8.h"
#include "context/tokenizer/readers.h"
#include "formats/json.h"
#include "formats/printable.h"

namespace quire::context {
namespace {

/// The tokens of a text on their way out, and where each begins in it.
struct Output {
  Tokenizer::Encoding encoding;
  Tracking tracking;

  void add(TokenId id, size_t begin) {
    encoding.ids.push_back(id);
    if (tracking == Tracking::kOn) encoding.ranges.push_back({begin, 0});
  }
};

bool has_special(std::span<const AddedToken> tokens) {
  return std::ranges::any_of(tokens, &AddedToken::special);
}

}  // namespace

struct Tokenizer::Impl {
  Impl(Vocabulary words, TokenizerSpec&& given) : vocabulary(std::move(words)) {
    description = std::move(given.description);
    for (const int32_t id : given.prefix) prefix.push_back(TokenId{id});
    for (const int32_t id : given.suffix) suffix.push_back(TokenId{id});
    space_prefix = given.space_prefix;
    if (given.bos) bos = TokenId{*given.bos};
    if (given.eos) eos = TokenId{*given.eos};
    for (const int32_t id : given.more_ends) ends.push_back(TokenId{id});
    if (eos) ends.push_back(*eos);
    std::ranges::sort(ends);
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    chat_template = std::move(given.chat_template);
    special_tokens = std::move(given.special_tokens);
    normalizer = Normalizer(std::move(given.normalizer));
    pre_tokenizer = PreTokenizer(std::move(given.pre_tokenizer));
    set_added_tokens(std::move(given.added));
  }

  static Result<Tokenizer> build(TokenizerSpec spec);

  /// Those that match in the normalized text are themselves sought in their normalized form.
  void set_added_tokens(std::vector<AddedToken> added) {
    RegexScratch scratch(RegexScratch::Texts::kAny);
    std::vector<AddedToken> in_raw;
    std::vector<AddedToken> in_normalized;
    for (AddedToken& token : added) {
      if (!token.normalized) {
        in_raw.push_back(std::move(token));
        continue;
      }
      AlignedText content(token.content, 0, Tracking::kOff);
      normalizer.apply(content, scratch);
      token.content = std::string(content.text());
      in_normalized.push_back(std::move(token));
    }
    normalized_special = has_special(in_normalized);
    raw_added = AddedTokens(std::move(in_raw));
    normalized_added = AddedTokens(std::move(in_normalized));
  }

  void encode(std::string_view text, std::span<const ByteRange> inert, Output& out) const;
  void encode_stretch(AlignedText text, std::span<const ByteRange> inert, RegexScratch& scratch,
                      BpeScratch& bpe_scratch, Output& out) const;
  void encode_words(AlignedText text, RegexScratch& scratch, BpeScratch& bpe_scratch,
                    Output& out) const;

  Vocabulary vocabulary;
  std::optional<BpeModel> model;  // refers to vocabulary, so it is made after it has its place
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  AddedTokens raw_added;
  AddedTokens normalized_added;
  bool normalized_special = false;  // some of normalized_added are special

  std::string description;
  std::vector<TokenId> prefix;
  std::vector<TokenId> suffix;
  bool space_prefix = false;
  std::optional<TokenId> bos;
  std::optional<TokenId> eos;
  std::vector<TokenId> ends;
  std::optional<std::string> chat_template;
  std::vector<std::pair<std::string, std::string>> special_tokens;
};

Result<Tokenizer> Tokenizer::Impl::build(TokenizerSpec spec) {
  QUIRE_TRY(Vocabulary vocabulary, Vocabulary::create(spec.tokens, spec.bpe.spelling));
  const auto merges = std::move(spec.merges);
  const auto scores = std::move(spec.scores);
  const BpeOptions options = spec.bpe;
  auto impl = std::make_unique<Impl>(std::move(vocabulary), std::move(spec));
  QUIRE_TRY(impl->model, scores ? BpeModel::from_scores(impl->vocabulary, options, *scores)
                                : BpeModel::from_merges(impl->vocabulary, options, merges));
  return Tokenizer(std::move(impl));
}

namespace {

/// The inert ranges of the input, as ranges of a rewritten stretch of it.
std::vector<ByteRange> inert_within(const AlignedText& text, std::span<const ByteRange> inert) {
  std::vector<ByteRange> ranges;
  const size_t size = text.text().size();
  size_t at = 0;
  for (const ByteRange range : inert) {
    while (at < size && text.origin(at) < range.begin) ++at;
    const size_t begin = at;
    while (at < size && text.origin(at) < range.end) ++at;
    if (begin < at) ranges.push_back({begin, at});
  }
  return ranges;
}

}  // namespace

void Tokenizer::Impl::encode(std::string_view text, std::span<const ByteRange> inert,
                             Output& out) const {
  // Positions within a word are 32 bits wide, and a normalizer may triple a text.
  QUIRE_CHECK_LE(text.size(), kMaxTextBytes);
  RegexScratch scratch(utf8_is_valid(text) ? RegexScratch::Texts::kWellFormed
                                           : RegexScratch::Texts::kAny);
  BpeScratch bpe_scratch;
  // Special tokens sought in the normalized text need to know which of it is inert.
  const Tracking tracking = normalized_special && !inert.empty() ? Tracking::kOn : out.tracking;
  for (const AddedSpan& span : raw_added.split(text, inert)) {
    if (span.id >= 0) {
      out.add(TokenId{span.id}, span.range.begin);
      continue;
    }
    const auto part = text.substr(span.range.begin, span.range.end - span.range.begin);
    encode_stretch(AlignedText(part, span.range.begin, tracking), inert, scratch, bpe_scratch, out);
  }
  if (out.tracking == Tracking::kOff) return;
  auto& ranges = out.encoding.ranges;
  if (!ranges.empty()) ranges.front().begin = 0;
  for (size_t i = 0; i < ranges.size(); ++i) {
    ranges[i].end = i + 1 < ranges.size() ? ranges[i + 1].begin : text.size();
  }
}

void Tokenizer::Impl::encode_stretch(AlignedText text, std::span<const ByteRange> inert,
                                     RegexScratch& scratch, BpeScratch& bpe_scratch,
                                     Output& out) const {
  normalizer.apply(text, scratch);
  if (normalized_added.empty()) return encode_words(std::move(text), scratch, bpe_scratch, out);
  const bool tracked = text.tracking() == Tracking::kOn;
  const std::vector<ByteRange> here =
      normalized_special && tracked ? inert_within(text, inert) : std::vector<ByteRange>();
  for (const AddedSpan& span : normalized_added.split(text.text(), here)) {
    if (span.id >= 0) {
      out.add(TokenId{span.id}, tracked ? text.origin(span.range.begin) : 0);
    } else {
      encode_words(text.part(span.range.begin, span.range.end), scratch, bpe_scratch, out);
    }
  }
}

void Tokenizer::Impl::encode_words(AlignedText text, RegexScratch& scratch, BpeScratch& bpe_scratch,
                                   Output& out) const {
  const Words words = pre_tokenizer.apply(std::move(text), scratch);
  std::vector<PlacedToken> tokens;
  tokens.reserve(words.text.text().size() / 3);
  for (const ByteRange word : words.ranges) {
    model->encode(words.text.text().substr(word.begin, word.end - word.begin),
                  static_cast<uint32_t>(word.begin), bpe_scratch, tokens);
  }
  for (const PlacedToken& token : tokens) {
    out.add(token.id, out.tracking == Tracking::kOn ? words.text.origin(token.begin) : 0);
  }
}

Tokenizer::Tokenizer(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::from_gguf(const formats::GgufMetadata& metadata) {
  QUIRE_TRY(TokenizerSpec spec, read_gguf_tokenizer(metadata));
  return Impl::build(std::move(spec));
}

Result<Tokenizer> Tokenizer::from_json(std::string_view tokenizer_json,
                                       std::string_view tokenizer_config_json) {
  QUIRE_TRY(const formats::Json tokenizer, formats::Json::parse(tokenizer_json, "tokenizer.json"));
  formats::Json config;
  if (!tokenizer_config_json.empty()) {
    QUIRE_TRY(config, formats::Json::parse(tokenizer_config_json, "tokenizer_config.json"));
  }
  QUIRE_TRY(TokenizerSpec spec, read_json_tokenizer(tokenizer, config));
  return Impl::build(std::move(spec));
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, Special special) const {
  const ByteRange everything{0, text.size()};
  const std::span<const ByteRange> inert(&everything, special == Special::kPlain ? 1 : 0);
  return encode(text, inert);
}

std::vector<TokenId> Tokenizer::encode(std::string_view text,
                                       std::span<const ByteRange> inert) const {
  Output out{{}, Tracking::kOff};
  impl_->encode(text, inert, out);
  return std::move(out.encoding.ids);
}

Tokenizer::Encoding Tokenizer::encode_with_ranges(std::string_view text,
                                                  std::span<const ByteRange> inert) const {
  Output out{{}, Tracking::kOn};
  impl_->encode(text, inert, out);
  return std::move(out.encoding);
}

std::string_view Tokenizer::piece(TokenId id) const {
  return is_valid(id) ? impl_->vocabulary.piece(id.value) : std::string_view();
}

std::string Tokenizer::decode(std::span<const TokenId> ids, SpecialText special) const {
  std::string text;
  for (const TokenId id : ids) {
    if (special == SpecialText::kSkip && is_control(id)) continue;
    text += piece(id);
  }
  if (impl_->space_prefix && text.starts_with(' ')) text.erase(0, 1);
  return text;
}

int32_t Tokenizer::vocab_size() const {
  return impl_->vocabulary.size();
}

TokenKind Tokenizer::kind(TokenId id) const {
  return is_valid(id) ? impl_->vocabulary.kind(id.value) : TokenKind::kUnused;
}

bool Tokenizer::is_control(TokenId id) const {
  return is_special(kind(id));
}

std::optional<TokenId> Tokenizer::find(std::string_view spelled) const {
  const int32_t id = impl_->vocabulary.find_spelled(spelled);
  if (id < 0) return std::nullopt;
  return TokenId{id};
}

std::optional<TokenId> Tokenizer::bos() const {
  return impl_->bos;
}
std::optional<TokenId> Tokenizer::eos() const {
  return impl_->eos;
}
std::span<const TokenId> Tokenizer::end_of_generation() const {
  return impl_->ends;
}

bool Tokenizer::is_end_of_generation(TokenId id) const {
  return std::ranges::binary_search(impl_->ends, id);
}

std::span<const TokenId> Tokenizer::prefix() const {
  return impl_->prefix;
}
std::span<const TokenId> Tokenizer::suffix() const {
  return impl_->suffix;
}
bool Tokenizer::add_space_prefix() const {
  return impl_->space_prefix;
}

const std::optional<std::string>& Tokenizer::chat_template() const {
  return impl_->chat_template;
}

std::span<const std::pair<std::string, std::string>> Tokenizer::special_tokens() const {
  return impl_->special_tokens;
}

std::string_view Tokenizer::description() const {
  return impl_->description;
}

}  // namespace quire::context
