#include "engine/conversation.h"

#include "base/check.h"

namespace quire::engine {

using formats::Json;

Conversation::Conversation(const context::Tokenizer& tokenizer,
                           const context::ChatTemplate& chat_template)
    : tokenizer_(&tokenizer), template_(&chat_template) {}

void Conversation::add(std::string role, std::string content) {
  messages_.push_back({std::move(role), std::move(content)});
}

void Conversation::set_system(std::string content) {
  const bool has = !messages_.empty() && messages_.front().role == "system";
  if (has) messages_.erase(messages_.begin());
  if (!content.empty()) messages_.insert(messages_.begin(), {"system", std::move(content)});
}

void Conversation::truncate(size_t count) {
  QUIRE_CHECK_LE(count, messages_.size());
  messages_.resize(count);
}

context::ChatRequest Conversation::request() const {
  context::ChatRequest request;
  request.messages = Json(Json::Array{});
  for (const Message& message : messages_) {
    Json json;
    json.set("role", message.role);
    json.set("content", message.content);
    request.messages.push_back(std::move(json));
  }
  request.kwargs = kwargs_;
  const auto special = tokenizer_->special_tokens();
  request.special_tokens = {special.begin(), special.end()};
  request.now = context::local_wall_clock();
  return request;
}

Result<Prompt> Conversation::prompt() const {
  return chat_prompt(*tokenizer_, *template_, request(), {known_text_, known_tokens_});
}

void Conversation::add_answer(const Prompt& prompt, std::string_view text,
                              std::span<const TokenId> tokens) {
  messages_.push_back({"assistant", std::string(text)});
  known_tokens_ = prompt.tokens;
  known_tokens_.insert(known_tokens_.end(), tokens.begin(), tokens.end());
  // An end token is spelled by the template too; a stop string or a cut leaves the bare text.
  known_text_ = prompt.text + tokenizer_->decode(tokens, context::SpecialText::kShow);
}

}  // namespace quire::engine
