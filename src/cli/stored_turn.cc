#include "cli/stored_turn.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"
#include "cli/compaction.h"
#include "cli/home.h"
#include "cli/overflow.h"
#include "cli/prompt_input.h"

namespace quire::cli {

using formats::Json;

Result<void> check_turn_options(const RunOptions& options) {
  const auto refused = [](std::string_view option) {
    return Error{ErrorCode::kUsage,
                 fmt::format("--conversation and {} exclude each other", option)};
  };
  if (options.prompt.messages_file) return refused("--messages");
  if (options.prompt.raw()) return refused("--raw or --plain");
  if (options.prompt.no_special) return refused("--no-special");
  if (options.choices > 1) return refused("--choices");
  return context::check_conversation_name(*options.conversation);
}

Result<std::unique_ptr<StoredTurn>> StoredTurn::begin(const Environment& env,
                                                      const std::string& name,
                                                      const PromptOptions& prompt,
                                                      const LoadedModel& loaded, Output& output) {
  const engine::Model& model = *loaded.model;
  if (model.chat_template() == nullptr) {
    return needs_template("--conversation", model.template_problem());
  }
  QUIRE_TRY(auto store, open_conversations(env, output));
  QUIRE_TRY(StoredConversation stored,
            StoredConversation::open(std::move(store), name, model_name(model)));
  auto turn = std::unique_ptr<StoredTurn>(new StoredTurn(std::move(stored), model));
  QUIRE_TRY_VOID(turn->add_question(env, prompt, output));
  return turn;
}

Result<void> StoredTurn::add_question(const Environment& env, PromptOptions options,
                                      Output& output) {
  Json kwargs;
  add_template_kwargs(options, kwargs);
  conversation_.set_template_kwargs(std::move(kwargs));
  QUIRE_TRY(auto messages, stored_.messages());
  if (!messages.empty() && messages.back().role == "user") {
    output.remark("the last message had no answer; this one takes its place");
    messages.pop_back();
  }
  QUIRE_TRY(auto view, stored_.view(messages));
  QUIRE_TRY_VOID(conversation_.restore(std::move(messages), sent_with(std::move(view))));
  // The prefix stands at the head of the first user message only.
  const auto is_user = [](const auto& message) { return message.role == "user"; };
  if (std::ranges::any_of(conversation_.messages(), is_user)) options.prefix_file.reset();
  QUIRE_TRY(const std::string question, read_prompt_text(env, options, output));
  if (options.system) conversation_.set_system(utf8_sanitized(*options.system));
  conversation_.add("user", utf8_sanitized(question));
  return {};
}

Result<engine::Prompt> StoredTurn::prompt(const engine::Engine& engine,
                                          const GenerationOptions& options,
                                          context::window::Summarizer* summarizer, Output& output) {
  const engine::Model& model = engine.model();
  StoredWindow window{
      .stored = stored_,
      .text = {model.tokenizer(), *model.chat_template()},
      .limits = limits_of(engine.window(), model.config().context),
      .policy = window_policy(options, options.max_tokens),
      .summarizer = summarizer,
      .render = [this](const context::ChatRequest& log) { return conversation_.prompt_of(log); },
      .output = output};
  QUIRE_TRY(const SeenLog sent,
            seen_of_stored(window, conversation_.request(), conversation_.messages()));
  return conversation_.prompt_of(sent.request);
}

Result<void> StoredTurn::keep_question() {
  return stored_.keep(conversation_.messages());
}

Result<void> StoredTurn::keep_answer(const engine::Prompt& prompt,
                                     const engine::Generated& generated) {
  // Stopped before its first token: the question waits for an answer.
  if (generated.tokens.empty()) return {};
  conversation_.add_answer(prompt, generated.text, generated.tokens);
  return stored_.keep(conversation_.messages());
}

Json StoredTurn::to_json() const {
  Json json;
  json.set("name", stored_.info().name);
  json.set("id", stored_.info().handle);
  const auto head = stored_.head();
  json.set("message", head ? Json(head->value) : Json());
  return json;
}

}  // namespace quire::cli
