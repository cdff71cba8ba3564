// POST /v1/completions, whole and streamed.
#include <fmt/format.h>

#include "base/utf8.h"
#include "server/answer_task.h"
#include "server/chat_prompt.h"
#include "server/chat_window.h"
#include "server/completion_params.h"
#include "server/reply_json.h"
#include "server/routes.h"

namespace quire::server {
namespace {

using formats::Json;

struct ReplyHead {
  const Backend& backend;
  std::shared_ptr<HttpExchange> exchange;
  std::string id;
  std::string model;
  int64_t created = 0;
  int32_t choices = 1;  // of all prompts
  bool include_usage = false;
  bool return_tokens = false;
  bool logprobs = false;
  std::optional<int64_t> max_tokens;
  Json window_report;  // of the first prompt; null: the request said nothing of its window

  Json json() const {
    Json json;
    json.set("id", id);
    json.set("object", "text_completion");
    json.set("created", created);
    json.set("model", model);
    return json;
  }
};

/// Tokens of a choice with the offset in its text at which each begins.
class LegacyLogprobs {
 public:
  LegacyLogprobs() {
    for (const char* name : {"tokens", "token_logprobs", "top_logprobs", "text_offset"}) {
      json_.set(name, Json(Json::Array{}));
    }
  }

  void add(const context::Tokenizer& tokenizer, const AnswerToken& token, size_t offset) {
    if (!token.logprob) return;
    const auto shown = [&](TokenId id) { return utf8_sanitized(tokenizer.piece(id)); };
    append("tokens", shown(token.id));
    append("token_logprobs", token.logprob->chosen.logprob);
    Json top(Json::Object{});
    for (const engine::TokenLogprob& other : token.logprob->top) {
      top.set(shown(other.id), other.logprob);
    }
    append("top_logprobs", std::move(top));
    append("text_offset", static_cast<int64_t>(offset));
    ++count_;
  }
  bool empty() const { return count_ == 0; }
  Json take() { return std::move(json_); }

 private:
  void append(std::string_view name, Json value) {
    for (auto& [key, list] : *json_.as_object()) {
      if (key == name) list.push_back(std::move(value));
    }
  }

  Json json_;
  int64_t count_ = 0;
};

/// What both kinds of reply do with what they hear.
class CompletionReply : public AnswerSink {
 public:
  explicit CompletionReply(ReplyHead head)
      : head_(std::move(head)), choices_(static_cast<size_t>(head_.choices)) {}

  void progress(const PrefillProgress&) override {}

 protected:
  struct Choice {
    std::string text;
    size_t characters = 0;  // of the text that was told already
    std::vector<AnswerToken> tokens;
    std::string finish_reason;
  };

  void add(AnswerPiece& piece) {
    Choice& choice = choices_[static_cast<size_t>(piece.index)];
    for (context::AnswerEvent& event : piece.events) choice.text += event.text;
    for (AnswerToken& token : piece.tokens) choice.tokens.push_back(std::move(token));
  }

  /// The choice as it stands; what it holds counts as told.
  Json take_json(int32_t index, std::string_view finish_reason) {
    Choice& choice = choices_[static_cast<size_t>(index)];
    const context::Tokenizer& tokenizer = head_.backend.model.tokenizer();
    Json json;
    json.set("index", int64_t{index});
    json.set("text", choice.text);
    if (head_.return_tokens) json.set("tokens", token_ids_json(choice.tokens));
    LegacyLogprobs logprobs;
    size_t offset = choice.characters;
    for (const AnswerToken& token : choice.tokens) {
      if (head_.backend.model.is_end_of_generation(token.id)) continue;
      logprobs.add(tokenizer, token, offset);
      offset += utf8_length(tokenizer.piece(token.id));
    }
    json.set("logprobs", logprobs.empty() ? Json() : logprobs.take());
    json.set("finish_reason", finish_reason.empty() ? Json() : Json(finish_reason));
    choice.characters += utf8_length(choice.text);
    choice.text.clear();
    choice.tokens.clear();
    return json;
  }

  void note_end(const AnswerEnd& end) {
    if (end.index == 0) {
      set_reports(reports_, head_.backend, end, head_.max_tokens, head_.window_report);
    }
    choices_[static_cast<size_t>(end.index)].finish_reason = end.finish_reason;
  }
  void add_reports(Json& json) const {
    for (const auto& [name, value] : *reports_.as_object()) json.set(name, value);
  }

  const ReplyHead head_;
  std::vector<Choice> choices_;
  Json reports_;
};

class WholeReply : public CompletionReply {
 public:
  using CompletionReply::CompletionReply;

  void begin() override {}
  void piece(AnswerPiece piece) override { add(piece); }
  void ended(AnswerEnd end) override { note_end(end); }

  void finish(const Usage& usage) override {
    Json choices(Json::Array{});
    for (int32_t i = 0; i < head_.choices; ++i) {
      choices.push_back(take_json(i, choices_[static_cast<size_t>(i)].finish_reason));
    }
    Json json = head_.json();
    json.set("choices", std::move(choices));
    json.set("usage", usage_json(usage));
    add_reports(json);
    head_.exchange->respond({.body = json.dump()});
  }
  void fail(const ApiError& error) override { head_.exchange->respond(to_response(error)); }
};

class StreamedReply : public CompletionReply {
 public:
  using CompletionReply::CompletionReply;

  void begin() override {
    began_ = true;
    head_.exchange->begin_stream(kSseType, kSseHeartbeat);
  }
  void piece(AnswerPiece piece) override {
    add(piece);
    if (!choices_[static_cast<size_t>(piece.index)].text.empty()) {
      head_.exchange->write(sse(chunk(piece.index, "")));
    }
  }
  void ended(AnswerEnd end) override {
    note_end(end);
    if (++num_ended_ < head_.choices) {
      head_.exchange->write(sse(chunk(end.index, end.finish_reason)));
    } else {
      last_ = end.index;
    }
  }
  void finish(const Usage& usage) override {
    Json last = chunk(last_, choices_[static_cast<size_t>(last_)].finish_reason);
    add_reports(last);
    head_.exchange->write(sse(last));
    end_sse(*head_.exchange, head_.json(), head_.include_usage ? &usage : nullptr);
  }
  void fail(const ApiError& error) override {
    if (!began_) return head_.exchange->respond(to_response(error));
    fail_sse(*head_.exchange, error);
  }

 private:
  Json chunk(int32_t index, std::string_view finish_reason) {
    Json json = head_.json();
    json.set("choices", Json(Json::Array{take_json(index, finish_reason)}));
    if (head_.include_usage) json.set("usage", Json());
    return json;
  }

  bool began_ = false;
  int32_t num_ended_ = 0;
  int32_t last_ = 0;
};

}  // namespace

void handle_completions(const Call& call) {
  const std::optional<Json> body = read_body(call);
  if (!body) return;
  const Backend& backend = *call.serving.backend();
  Fields fields(*body);
  check_model(call.serving, fields);
  fields.refuse({"suffix"}, "it is not supported.");
  if (fields.boolean("echo").value_or(false)) fields.fail("echo", "it is not supported.");
  GenerationParams params = read_generation(fields, call.serving.defaults());
  if (const auto best_of = fields.integer("best_of", 1, kMostChoices)) {
    if (*best_of != params.choices) fields.fail("best_of", "it must be equal to 'n'.");
  }
  params.options.logprobs = read_completion_logprobs(fields);
  const auto window = read_text_window(fields, *body, params.options.max_tokens);
  std::vector<engine::Prompt> prompts;
  if (fields.ok()) prompts = read_prompts(fields, backend.model.tokenizer());
  if (fields.error()) return reply(call, *fields.error());
  Json window_report;
  for (engine::Prompt& prompt : prompts) {
    if (window) {
      auto report = fit_text(backend, *window, prompt, params.options.max_tokens);
      if (!report.ok()) return reply(call, report.error());
      if (window_report.is_null()) window_report = context::window::context_json(*report);
    }
    const auto misfit =
        check_window(call.serving, backend, static_cast<int64_t>(prompt.tokens.size()),
                     params.options.max_tokens, "prompt");
    if (misfit) return reply(call, *misfit);
  }

  ReplyHead head{.backend = backend,
                 .exchange = call.exchange,
                 .id = call.serving.new_id("cmpl-"),
                 .model = model_name(call.serving, *body),
                 .created = unix_seconds(),
                 .choices = params.choices * static_cast<int32_t>(prompts.size()),
                 .include_usage = params.include_usage,
                 .return_tokens = params.return_tokens,
                 .logprobs = params.options.logprobs.has_value(),
                 .max_tokens = params.options.max_tokens,
                 .window_report = std::move(window_report)};
  AnswerPlan plan{.id = head.id,
                  .route = "/v1/completions",
                  .tenant = call.tenant,
                  .prompts = std::move(prompts),
                  .params = std::move(params),
                  .constraint = nullptr,
                  .format = std::nullopt};
  std::unique_ptr<AnswerSink> sink;
  if (plan.params.stream) {
    sink = std::make_unique<StreamedReply>(std::move(head));
  } else {
    sink = std::make_unique<WholeReply>(std::move(head));
  }
  std::make_shared<AnswerTask>(call.serving, call.exchange, std::move(plan), std::move(sink))
      ->start();
}

}  // namespace quire::server
