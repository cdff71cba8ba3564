#include "engine/conversation.h"

#include <fmt/format.h>

#include <algorithm>

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

Result<void> Conversation::restore(std::vector<Message> messages, const Sent& sent) {
  messages_.clear();
  for (Message& message : messages) {
    const bool generated =
        message.role == "assistant" && !message.tokens.empty() &&
        std::ranges::all_of(message.tokens, [&](TokenId id) { return tokenizer_->is_valid(id); }) &&
        tokenizer_->decode(message.tokens, context::SpecialText::kSkip)
            .starts_with(message.content);
    if (generated) {
      QUIRE_TRY(const Prompt asked, prompt_of(sent ? sent(request()) : request()));
      add_answer(asked, message.content, message.tokens);
    } else {
      messages_.push_back(std::move(message));
    }
  }
  return {};
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

/// The last cut up to which the rendered text is the known text.
const Conversation::Cut* Conversation::last_cut_within(std::string_view text) const {
  const auto differs = std::ranges::mismatch(text, known_text_).in1 - text.begin();
  const auto same = static_cast<size_t>(differs);
  const Cut* last = nullptr;
  for (const Cut& cut : cuts_) {
    if (cut.text_bytes <= same) last = &cut;
  }
  return last;
}

std::vector<PromptRun> Conversation::known_runs(size_t tokens) const {
  std::vector<PromptRun> runs;
  for (PromptRun run : known_runs_) {
    run.end = std::min(run.end, static_cast<int64_t>(tokens));
    if (run.begin < run.end) runs.push_back(std::move(run));
  }
  return runs;
}

Result<Prompt> Conversation::prompt_of(const context::ChatRequest& request) const {
  QUIRE_TRY(context::RenderedPrompt rendered, template_->render(request));
  KnownBeginning known;
  std::vector<PromptRun> runs;
  if (const Cut* cut = last_cut_within(rendered.text)) {
    runs = known_runs(cut->tokens);
    known = {.text = std::string_view(known_text_).substr(0, cut->text_bytes),
             .tokens = std::span(known_tokens_).first(cut->tokens),
             .runs = runs};
  }
  Prompt prompt = tokenized(*tokenizer_, std::move(rendered), known);
  prompt.request = request;
  return prompt;
}

void Conversation::add_answer(const Prompt& prompt, std::string_view text,
                              std::span<const TokenId> tokens) {
  // The cuts that the prompt was built on stay; a cut of an answer that did not end by itself was
  // good only for what followed it at once.
  const Cut* used = last_cut_within(prompt.text);
  const size_t kept = used != nullptr ? used->tokens : 0;
  std::erase_if(cuts_, [&](const Cut& cut) {
    return cut.tokens > kept || !tokenizer_->is_control(known_tokens_[cut.tokens - 1]);
  });
  known_tokens_ = prompt.tokens;
  known_tokens_.insert(known_tokens_.end(), tokens.begin(), tokens.end());
  // An end token is spelled by the template too; a stop string or a cut leaves the bare text.
  known_text_ = prompt.text + tokenizer_->decode(tokens, context::SpecialText::kShow);
  known_runs_ = prompt.runs;
  const auto end = static_cast<int64_t>(known_tokens_.size());
  known_runs_.push_back({static_cast<int64_t>(prompt.tokens.size()), end,
                         fmt::format("message[{}] assistant", messages_.size())});
  cuts_.push_back({known_text_.size(), known_tokens_.size()});
  messages_.push_back({"assistant", std::string(text), {tokens.begin(), tokens.end()}});
}

}  // namespace quire::engine
