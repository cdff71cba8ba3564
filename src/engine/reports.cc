#include "engine/reports.h"

#include "context/shown_piece.h"

namespace quire::engine {

using formats::Json;

Json reuse_json(const Reuse& reuse, const Prompt& prompt, const context::Tokenizer& tokenizer) {
  Json json;
  json.set("cached_tokens", reuse.cached_tokens);
  json.set("miss", Json());
  if (!reuse.miss) return json;
  const kv::PrefixMiss& miss = *reuse.miss;
  const auto token = [&](const std::optional<TokenId>& id) {
    return id ? Json(context::shown_piece(tokenizer.piece(*id))) : Json();
  };
  const auto id = [](const std::optional<TokenId>& token_id) {
    return token_id ? Json(int64_t{token_id->value}) : Json();
  };
  const std::string_view part = what_at(prompt, miss.token_index);
  Json out;
  out.set("reason", kv::name(miss.reason));
  if (!miss.key_field.empty()) out.set("key_field", miss.key_field);
  out.set("token_index", miss.token_index);
  out.set("message", part.empty() ? Json() : Json(part));
  out.set("expected", token(miss.expected));
  out.set("expected_id", id(miss.expected));
  out.set("got", token(miss.got));
  out.set("got_id", id(miss.got));
  out.set("cost_tokens", miss.cost_tokens);
  json.set("miss", std::move(out));
  return json;
}

Json context_json(const Window& window, int64_t prompt_tokens, std::optional<int64_t> reserve) {
  Json json;
  json.set("status", "fits");
  json.set("policy", "reject");
  json.set("limit", name(window.limit));
  json.set("window", window.tokens);
  json.set("prompt_tokens", prompt_tokens);
  json.set("reserve", reserve.value_or(window.tokens - prompt_tokens));
  json.set("kept", Json(Json::Array{}));
  json.set("dropped", Json(Json::Array{}));
  json.set("risk", "none");
  return json;
}

}  // namespace quire::engine
