#include "context/tokenizer_export.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "base/check.h"
#include "context/tokenizer.h"
#include "context/tokenizer/readers.h"
#include "formats/gguf_parser.h"
#include "formats/json.h"
#include "formats/printable.h"

namespace quire::context {
namespace {

using formats::GgufWriter;
using formats::Json;

template <class T>
bool same_part(const T& a, const T& b) {
  if constexpr (std::is_same_v<T, Split>) {
    return a.pattern == b.pattern && a.behavior == b.behavior && a.at == b.at;
  } else if constexpr (std::is_same_v<T, UnicodeForm>) {
    return a == b;
  } else {
    return std::is_empty_v<T>;  // the others with settings stand behind no name
  }
}

template <class Step>
bool same_steps(const std::vector<Step>& a, const std::vector<Step>& b) {
  const auto same = [](const Step& left, const Step& right) {
    return left.index() == right.index() &&
           std::visit(
               [&](const auto& part) {
                 return same_part(part, std::get<std::decay_t<decltype(part)>>(right));
               },
               left);
  };
  return std::ranges::equal(a, b, same);
}

/// The name that GGUF has for the tokenizer's normalizer and pre-tokenizer.
std::optional<std::string_view> pre_tokenizer_name(const TokenizerSpec& spec) {
  for (const std::string_view name : pre_tokenizer_names()) {
    const auto named = pre_tokenizer_by_name(name);
    if (!named.ok() || named->ignore_merges != spec.bpe.ignore_merges) continue;
    if (!same_steps(named->normalizer, spec.normalizer)) continue;
    if (same_steps(named->steps, spec.pre_tokenizer)) return name;
  }
  return std::nullopt;
}

int32_t ggml_kind(TokenKind kind) {
  switch (kind) {
    case TokenKind::kNormal:
      return 1;
    case TokenKind::kUnknown:
      return 2;
    case TokenKind::kControl:
      return 3;
    case TokenKind::kUserDefined:
      return 4;
    case TokenKind::kUnused:
      return 5;
    case TokenKind::kByte:
      return 6;
  }
  return 5;
}

/// "▁" as the space that it stands for: so GGUF has the user's own tokens of SentencePiece.
std::string with_spaces(std::string_view spelled) {
  std::string out(spelled);
  for (size_t at = 0; (at = out.find(kMetaspace, at)) != std::string::npos; ++at) {
    out.replace(at, kMetaspace.size(), " ");
  }
  return out;
}

void set_tokens(const TokenizerSpec& spec, int64_t vocab, GgufWriter& writer) {
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  for (int64_t id = 0; id < vocab; ++id) {
    const auto at = static_cast<size_t>(id);
    const bool is_hole = at >= spec.tokens.size() || spec.tokens[at].spelled.empty();
    const TokenKind kind = is_hole ? TokenKind::kUnused : spec.tokens[at].kind;
    std::string text = is_hole ? fmt::format("[PAD{}]", id) : std::string(spec.tokens[at].spelled);
    const bool own = kind == TokenKind::kUserDefined && spec.bpe.spelling == Spelling::kMetaspace;
    tokens.push_back(own ? with_spaces(text) : std::move(text));
    types.push_back(ggml_kind(kind));
  }
  writer.set_strings("tokenizer.ggml.tokens", tokens);
  writer.set_i32s("tokenizer.ggml.token_type", types);
}

/// SentencePiece merges by the score of what comes out: here, the rank of the first merge to it.
std::vector<float> scores_of_merges(const TokenizerSpec& spec, int64_t vocab) {
  std::unordered_map<std::string, float> of_text;
  for (size_t rank = 0; rank < spec.merges.size(); ++rank) {
    const auto& [left, right] = spec.merges[rank];
    of_text.emplace(std::string(left) + std::string(right), -static_cast<float>(rank) - 1);
  }
  constexpr float kNeverMerged = -1e6f;
  std::vector<float> scores(static_cast<size_t>(vocab), kNeverMerged);
  for (size_t id = 0; id < std::min(scores.size(), spec.tokens.size()); ++id) {
    const auto found = of_text.find(std::string(spec.tokens[id].spelled));
    if (found != of_text.end()) scores[id] = found->second;
  }
  return scores;
}

Result<void> set_model(const TokenizerSpec& spec, int64_t vocab, GgufWriter& writer) {
  if (spec.bpe.spelling == Spelling::kMetaspace) {
    writer.set_string("tokenizer.ggml.model", "llama");
    writer.set_string("tokenizer.ggml.pre", "default");
    writer.set_bool("tokenizer.ggml.add_space_prefix", spec.space_prefix);
    set_tokens(spec, vocab, writer);
    writer.set_f32s("tokenizer.ggml.scores", scores_of_merges(spec, vocab));
    return {};
  }
  const auto name = pre_tokenizer_name(spec);
  if (spec.bpe.spelling != Spelling::kByteLevel || !name) {
    return Error{ErrorCode::kUnsupported,
                 "the pre-tokenizer of tokenizer.json has no name in GGUF (tokenizer.ggml.pre) "
                 "that Quire knows, so the tokenizer cannot be written"};
  }
  writer.set_string("tokenizer.ggml.model", "gpt2");
  writer.set_string("tokenizer.ggml.pre", *name);
  set_tokens(spec, vocab, writer);
  std::vector<std::string> merges;
  for (const auto& [left, right] : spec.merges) merges.push_back(fmt::format("{} {}", left, right));
  writer.set_strings("tokenizer.ggml.merges", merges);
  return {};
}

void set_special_ids(const Tokenizer& tokenizer, int64_t vocab, GgufWriter& writer) {
  const auto set = [&](std::string_view key, std::optional<TokenId> id) {
    if (!id || id->value >= vocab) return;
    writer.set_u32(fmt::format("tokenizer.ggml.{}_token_id", key),
                   static_cast<uint32_t>(id->value));
  };
  set("bos", tokenizer.bos());
  set("eos", tokenizer.eos());
  for (const auto& [variable, text] : tokenizer.special_tokens()) {
    if (variable == "unk_token") set("unknown", tokenizer.find(text));
    if (variable == "pad_token") set("padding", tokenizer.find(text));
  }
  writer.set_bool("tokenizer.ggml.add_bos_token", tokenizer.add_bos());
  writer.set_bool("tokenizer.ggml.add_eos_token", tokenizer.add_eos());
}

/// Texts at which tokenizers differ, and every token of the vocabulary.
std::vector<std::string> probes(const Tokenizer& tokenizer) {
  std::vector<std::string> texts = {
      "",
      " ",
      "  \n\n \t x",
      "Hello world",
      " Hello  world ",
      "I'm sure you'll don't WE'VE 'twas '\u017F",
      "1234567 3.14 ١٢٣ \u00BD",
      "caf\u00E9 cafe\u0301 \u1E9B\u0323 \uFB01",
      "中文字 日本語 한국어 ไทย हिन्दी",
      "a_b-c/d\\e<|x|>{}[]()!?;:\"`~@#$%^&*+=|\r\n\r\n",
      "\U0001F600\U0001F468\u200D\U0001F469 \u2581\u2581 \u00A0\u3000",
      "\xFF\xC3(",
  };
  std::string joined;
  std::string spaced;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    joined += tokenizer.piece(TokenId{id});
    spaced.append(" ").append(tokenizer.piece(TokenId{id}));
  }
  texts.push_back(std::move(joined));
  texts.push_back(std::move(spaced));
  return texts;
}

/// What the written keys say that tokenizer.json does not; nothing if they agree.
std::optional<std::string> difference(const Tokenizer& from, const Tokenizer& to, int64_t vocab) {
  if (from.bos() != to.bos() || !std::ranges::equal(from.prefix(), to.prefix())) {
    return "another start of a text";
  }
  if (from.eos() != to.eos() || !std::ranges::equal(from.suffix(), to.suffix())) {
    return "another end of a text";
  }
  const bool all_written = from.vocab_size() <= vocab;
  for (const std::string& text : probes(from)) {
    for (const Special special : {Special::kParse, Special::kPlain}) {
      const std::vector<TokenId> ids = from.encode(text, special);
      // Tokens that the model lacks stay outside the file, and texts with them outside the check.
      const auto lacks = [&](TokenId id) { return id.value >= vocab; };
      if (!all_written && std::ranges::any_of(ids, lacks)) continue;
      if (to.encode(text, special) == ids) continue;
      return fmt::format("other tokens for {}", formats::printable(text.substr(0, 60)));
    }
  }
  return std::nullopt;
}

Result<void> check_readable(const Tokenizer& original, int64_t vocab, const GgufWriter& writer) {
  const std::string header = writer.header();
  QUIRE_TRY(const formats::ParsedGguf parsed,
            formats::parse_gguf(std::as_bytes(std::span(header)), "the new file's header",
                                formats::OpenMode::kMetadataOnly));
  QUIRE_TRY(const Tokenizer written, Tokenizer::from_gguf(parsed.metadata));
  if (const auto found = difference(original, written, vocab)) {
    return Error{
        ErrorCode::kUnsupported,
        fmt::format("GGUF cannot hold this tokenizer.json: read back, it gives {}", *found)};
  }
  return {};
}

/// GGUF has no place for what an added token does to its surroundings. Clears it, with a remark.
void drop_flags(Json& tokenizer, std::vector<std::string>& remarks) {
  const Json* added = tokenizer.find("added_tokens");
  if (added == nullptr || !added->is_array()) return;
  Json plain(Json::Array{});
  std::string example;
  for (Json token : *added->as_array()) {
    for (const char* flag : {"lstrip", "rstrip", "single_word"}) {
      const Json* value = token.find(flag);
      if (value == nullptr || value->as_bool() != true) continue;
      const Json* content = token.find("content");
      if (content != nullptr && content->is_string()) example = *content->as_string();
      token.set(flag, false);
    }
    plain.push_back(std::move(token));
  }
  if (example.empty()) return;
  tokenizer.set("added_tokens", std::move(plain));
  remarks.push_back(
      fmt::format("GGUF cannot say that tokens such as {} take in the white space beside them",
                  formats::printable(example)));
}

Result<std::string> sibling_text(const formats::ModelFiles& files, std::string_view name) {
  QUIRE_TRY(const auto text, files.read_sibling(name));
  return text ? std::string(text->text()) : std::string();
}

}  // namespace

Result<std::vector<std::string>> export_tokenizer(const formats::ModelFiles& files, int64_t vocab,
                                                  GgufWriter& writer) {
  QUIRE_TRY(const std::string tokenizer_text, sibling_text(files, "tokenizer.json"));
  if (tokenizer_text.empty()) {
    return Error{ErrorCode::kNotFound,
                 fmt::format("{} has no tokenizer.json, without which no GGUF file can be written",
                             files.path())};
  }
  QUIRE_TRY(const std::string config_text, sibling_text(files, "tokenizer_config.json"));
  QUIRE_TRY(Json json, Json::parse(tokenizer_text, "tokenizer.json"));
  Json config;
  if (!config_text.empty()) {
    QUIRE_TRY(config, Json::parse(config_text, "tokenizer_config.json"));
  }
  std::vector<std::string> remarks;
  drop_flags(json, remarks);
  QUIRE_TRY(const Tokenizer tokenizer, remarks.empty()
                                           ? Tokenizer::from_json(tokenizer_text, config_text)
                                           : Tokenizer::from_json(json.dump(), config_text));
  QUIRE_TRY(const TokenizerSpec spec, read_json_tokenizer(json, config));

  QUIRE_TRY_VOID(set_model(spec, vocab, writer));
  set_special_ids(tokenizer, vocab, writer);
  QUIRE_TRY(std::string chat_template, sibling_text(files, "chat_template.jinja"));
  if (chat_template.empty()) chat_template = tokenizer.chat_template().value_or("");
  if (!chat_template.empty()) writer.set_string("tokenizer.chat_template", chat_template);
  QUIRE_TRY_VOID(check_readable(tokenizer, vocab, writer));
  if (tokenizer.vocab_size() > vocab) {
    remarks.push_back(fmt::format("{} tokens for which the model has no embedding were left out",
                                  tokenizer.vocab_size() - vocab));
  }
  return remarks;
}

}  // namespace quire::context
