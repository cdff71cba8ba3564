// POST /tokenize, /detokenize, /apply-template, /v1/chat/completions/input_tokens: text and tokens,
// without generating anything.
#include <fmt/format.h>

#include "base/utf8.h"
#include "server/chat_prompt.h"
#include "server/routes.h"

namespace quire::server {
namespace {

using context::Tokenizer;
using formats::Json;

constexpr size_t kMostTokens = 4 << 20;

/// A piece that is no text by itself is given by its bytes.
Json piece_json(std::string_view piece) {
  if (utf8_is_valid(piece)) return Json(piece);
  Json bytes(Json::Array{});
  for (const char c : piece) bytes.push_back(int64_t{static_cast<unsigned char>(c)});
  return bytes;
}

Json token_json(const Tokenizer& tokenizer, TokenId id, bool with_piece) {
  if (!with_piece) return Json(int64_t{id.value});
  Json json;
  json.set("id", int64_t{id.value});
  json.set("piece", piece_json(tokenizer.piece(id)));
  return json;
}

/// The request's conversation as the model would see it, or nothing after having answered with the
/// error.
std::optional<ChatPrompt> read_rendered(const Call& call) {
  const std::optional<Json> body = read_body(call);
  if (!body) return std::nullopt;
  Fields fields(*body);
  check_model(call.serving, fields);
  const ChatParams chat = read_chat(fields);
  if (fields.error()) {
    reply(call, *fields.error());
    return std::nullopt;
  }
  ApiResult<ChatPrompt> rendered = render_chat(call.serving.backend()->model, chat);
  if (rendered.ok()) return std::move(*rendered);
  reply(call, rendered.error());
  return std::nullopt;
}

}  // namespace

void handle_tokenize(const Call& call) {
  const std::optional<Json> body = read_body(call);
  if (!body) return;
  Fields fields(*body);
  check_model(call.serving, fields);
  const auto content = fields.text("content", Tokenizer::kMaxTextBytes);
  const bool add_special = fields.boolean("add_special").value_or(false);
  const bool parse_special = fields.boolean("parse_special").value_or(true);
  const bool with_pieces = fields.boolean("with_pieces").value_or(false);
  if (!content && fields.ok()) fields.fail("content", "it is missing.");
  if (fields.error()) return reply(call, *fields.error());

  const Tokenizer& tokenizer = call.serving.backend()->model.tokenizer();
  const engine::Prompt prompt = engine::raw_prompt(
      tokenizer, *content, parse_special ? engine::RawText::kParse : engine::RawText::kPlain,
      add_special ? engine::AddSpecial::kAsModel : engine::AddSpecial::kNone);
  Json tokens(Json::Array{});
  for (const TokenId id : prompt.tokens) tokens.push_back(token_json(tokenizer, id, with_pieces));
  Json json;
  json.set("tokens", std::move(tokens));
  reply(call, json);
}

void handle_detokenize(const Call& call) {
  const std::optional<Json> body = read_body(call);
  if (!body) return;
  Fields fields(*body);
  check_model(call.serving, fields);
  const Json* tokens = fields.array("tokens", kMostTokens);
  if (tokens == nullptr && fields.ok()) fields.fail("tokens", "it is missing.");
  if (fields.error()) return reply(call, *fields.error());

  const Tokenizer& tokenizer = call.serving.backend()->model.tokenizer();
  std::string content;
  for (const Json& token : *tokens->as_array()) {
    const std::optional<int64_t> id = token.as_int();
    if (!id || *id < 0 || *id >= tokenizer.vocab_size()) {
      return reply(call,
                   bad_param("tokens", fmt::format("Invalid 'tokens': {} is no token id from "
                                                   "0 to {}.",
                                                   token.dump(), tokenizer.vocab_size() - 1)));
    }
    content += tokenizer.piece(TokenId{static_cast<int32_t>(*id)});
  }
  Json json;
  json.set("content", utf8_sanitized(content));
  reply(call, json);
}

void handle_apply_template(const Call& call) {
  const std::optional<ChatPrompt> rendered = read_rendered(call);
  if (!rendered) return;
  Json json;
  json.set("prompt", utf8_sanitized(rendered->prompt.text));
  reply(call, json);
}

void handle_input_tokens(const Call& call) {
  const std::optional<ChatPrompt> rendered = read_rendered(call);
  if (!rendered) return;
  Json parts(Json::Array{});
  for (const engine::PromptPart& part : rendered->prompt.parts) {
    Json each;
    each.set("what", part.what);
    each.set("tokens", part.tokens);
    parts.push_back(std::move(each));
  }
  Json json;
  json.set("object", "response.input_tokens");
  json.set("input_tokens", static_cast<int64_t>(rendered->prompt.tokens.size()));
  json.set("parts", std::move(parts));
  reply(call, json);
}

}  // namespace quire::server
