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

std::vector<context::window::CountedPart> counted_parts(const Prompt& prompt) {
  std::vector<context::window::CountedPart> parts;
  for (const PromptPart& part : prompt.parts) parts.push_back({part.what, part.tokens});
  return parts;
}

Json context_json(const Window& window, const Prompt& prompt, std::optional<int64_t> max_tokens) {
  context::window::WindowPolicy policy;
  policy.max_tokens = max_tokens;
  const context::window::Limits limits{
      .window = window.tokens, .by = std::string(name(window.limit)), .trained = {}};
  return context::window::context_json(context::window::whole_report(
      limits, policy, prompt.request ? &*prompt.request : nullptr, counted_parts(prompt)));
}

}  // namespace quire::engine
