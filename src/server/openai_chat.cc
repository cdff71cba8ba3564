// POST /v1/chat/completions, whole and streamed.
#include <fmt/format.h>

#include <chrono>

#include "base/utf8.h"
#include "server/answer_task.h"
#include "server/chat_prompt.h"
#include "server/chat_window.h"
#include "server/reply_json.h"
#include "server/routes.h"

namespace quire::server {
namespace {

using context::AnswerEvent;
using formats::Json;

/// What both kinds of reply need to know of the request.
struct ReplyHead {
  const Backend& backend;
  std::shared_ptr<HttpExchange> exchange;
  std::string id;
  std::string model;
  int64_t created = 0;
  int32_t choices = 1;
  bool include_usage = false;
  bool return_progress = false;
  bool return_tokens = false;
  bool logprobs = false;
  std::optional<int64_t> max_tokens;
  Json window_report;  // null: the request said nothing of its window

  Json json(std::string_view object) const {
    Json json;
    json.set("id", id);
    json.set("object", object);
    json.set("created", created);
    json.set("model", model);
    return json;
  }
  std::string call_id(int32_t index, size_t call) const {
    return fmt::format("call_{}_{}_{}", id.substr(id.find('-') + 1), index, call);
  }
};

/// An end token says nothing to the reader.
void drop_end_tokens(const engine::Model& model, std::vector<AnswerToken>& tokens) {
  std::erase_if(tokens,
                [&](const AnswerToken& token) { return model.is_end_of_generation(token.id); });
}

class WholeChatReply : public AnswerSink {
 public:
  explicit WholeChatReply(ReplyHead head)
      : head_(std::move(head)), choices_(static_cast<size_t>(head_.choices)) {}

  void begin() override {}
  void progress(const PrefillProgress&) override {}

  void piece(AnswerPiece piece) override {
    Choice& choice = choices_[static_cast<size_t>(piece.index)];
    for (AnswerEvent& event : piece.events) {
      if (event.kind == AnswerEvent::Kind::kContent) choice.content += event.text;
      if (event.kind == AnswerEvent::Kind::kReasoning) choice.reasoning += event.text;
      if (event.kind == AnswerEvent::Kind::kToolCall) choice.calls.push_back(std::move(event.call));
    }
    for (AnswerToken& token : piece.tokens) choice.tokens.push_back(std::move(token));
  }

  void ended(AnswerEnd end) override {
    choices_[static_cast<size_t>(end.index)].finish_reason = end.finish_reason;
    if (end.index == 0) {
      set_reports(reports_, head_.backend, end, head_.max_tokens, head_.window_report);
    }
  }

  void finish(const Usage& usage) override {
    Json json = head_.json("chat.completion");
    Json choices(Json::Array{});
    for (int32_t i = 0; i < head_.choices; ++i) choices.push_back(choice_json(i));
    json.set("choices", std::move(choices));
    json.set("usage", usage_json(usage));
    for (const auto& [name, value] : *reports_.as_object()) json.set(name, value);
    head_.exchange->respond({.body = json.dump()});
  }

  void fail(const ApiError& error) override { head_.exchange->respond(to_response(error)); }

 private:
  struct Choice {
    std::string content, reasoning;
    std::vector<context::ToolCall> calls;
    std::vector<AnswerToken> tokens;
    std::string finish_reason;
  };

  Json message_json(int32_t index) {
    const Choice& choice = choices_[static_cast<size_t>(index)];
    Json message;
    message.set("role", "assistant");
    const bool only_calls = choice.content.empty() && !choice.calls.empty();
    message.set("content", only_calls ? Json() : Json(choice.content));
    if (!choice.reasoning.empty()) message.set("reasoning_content", choice.reasoning);
    if (choice.calls.empty()) return message;
    Json calls(Json::Array{});
    for (size_t i = 0; i < choice.calls.size(); ++i) {
      calls.push_back(tool_call_json(choice.calls[i], head_.call_id(index, i)));
    }
    message.set("tool_calls", std::move(calls));
    return message;
  }

  Json choice_json(int32_t index) {
    Choice& choice = choices_[static_cast<size_t>(index)];
    Json json;
    json.set("index", int64_t{index});
    json.set("message", message_json(index));
    if (head_.return_tokens) json.set("tokens", token_ids_json(choice.tokens));
    drop_end_tokens(head_.backend.model, choice.tokens);
    json.set("logprobs", head_.logprobs
                             ? chat_logprobs_json(head_.backend.model.tokenizer(), choice.tokens)
                             : Json());
    json.set("finish_reason", choice.finish_reason);
    return json;
  }

  const ReplyHead head_;
  std::vector<Choice> choices_;
  Json reports_;
};

class StreamedChatReply : public AnswerSink {
 public:
  explicit StreamedChatReply(ReplyHead head)
      : head_(std::move(head)), choices_(static_cast<size_t>(head_.choices)) {}

  void begin() override {
    began_ = true;
    head_.exchange->begin_stream(kSseType, kSseHeartbeat);
    for (int32_t i = 0; i < head_.choices; ++i) {
      Json delta;
      delta.set("role", "assistant");
      delta.set("content", "");
      send(i, std::move(delta));
    }
  }

  void progress(const PrefillProgress& progress) override {
    Json report;
    report.set("total", progress.total);
    report.set("cache", progress.cached);
    report.set("processed", progress.processed);
    report.set("time_ms", progress.time_ms);
    Json chunk = chunk_json(progress.index, Json(Json::Object{}));
    chunk.set("prompt_progress", std::move(report));
    head_.exchange->write(sse(chunk));
  }

  void piece(AnswerPiece piece) override {
    Choice& choice = choices_[static_cast<size_t>(piece.index)];
    for (AnswerToken& token : piece.tokens) choice.unsaid.push_back(std::move(token));
    for (AnswerEvent& event : piece.events) {
      Json delta;
      if (event.kind == AnswerEvent::Kind::kToolCall) {
        send_call(piece.index, event.call);
        continue;
      }
      delta.set(event.kind == AnswerEvent::Kind::kReasoning ? "reasoning_content" : "content",
                event.text);
      send(piece.index, std::move(delta));
    }
  }

  void ended(AnswerEnd end) override {
    if (end.index == 0) {
      set_reports(reports_, head_.backend, end, head_.max_tokens, head_.window_report);
    }
    choices_[static_cast<size_t>(end.index)].finish_reason = end.finish_reason;
    // The last one's is held back for the reports, which stand in the last chunk before usage.
    if (++num_ended_ < head_.choices) {
      send_end(end.index, {});
    } else {
      last_ = end.index;
    }
  }

  void finish(const Usage& usage) override {
    send_end(last_, reports_);
    end_sse(*head_.exchange, head_.json("chat.completion.chunk"),
            head_.include_usage ? &usage : nullptr);
  }

  void fail(const ApiError& error) override {
    if (!began_) return head_.exchange->respond(to_response(error));
    fail_sse(*head_.exchange, error);
  }

 private:
  struct Choice {
    std::vector<AnswerToken> unsaid;  // tokens whose text is still to come
    size_t num_calls = 0;
    std::string finish_reason;
  };

  /// A chunk of one choice; takes the tokens that were not told yet.
  Json chunk_json(int32_t index, Json delta, std::string_view finish_reason = "") {
    Json choice;
    choice.set("index", int64_t{index});
    choice.set("delta", std::move(delta));
    std::vector<AnswerToken>& tokens = choices_[static_cast<size_t>(index)].unsaid;
    if (head_.return_tokens) choice.set("tokens", token_ids_json(tokens));
    if (head_.logprobs) drop_end_tokens(head_.backend.model, tokens);
    choice.set("logprobs", head_.logprobs && !tokens.empty()
                               ? chat_logprobs_json(head_.backend.model.tokenizer(), tokens)
                               : Json());
    tokens.clear();
    choice.set("finish_reason", finish_reason.empty() ? Json() : Json(finish_reason));
    Json chunk = head_.json("chat.completion.chunk");
    chunk.set("choices", Json(Json::Array{std::move(choice)}));
    if (head_.include_usage) chunk.set("usage", Json());
    return chunk;
  }

  void send(int32_t index, Json delta) {
    head_.exchange->write(sse(chunk_json(index, std::move(delta))));
  }

  /// Name first, then the arguments.
  void send_call(int32_t index, const context::ToolCall& call) {
    const size_t number = choices_[static_cast<size_t>(index)].num_calls++;
    Json first = tool_call_json(call, head_.call_id(index, number));
    first.set("index", static_cast<int64_t>(number));
    Json name;
    name.set("name", utf8_sanitized(call.name));
    name.set("arguments", "");
    first.set("function", std::move(name));
    Json arguments;
    arguments.set("arguments", utf8_sanitized(call.arguments));
    Json second;
    second.set("index", static_cast<int64_t>(number));
    second.set("function", std::move(arguments));
    for (Json* fragment : {&first, &second}) {
      Json delta;
      delta.set("tool_calls", Json(Json::Array{std::move(*fragment)}));
      send(index, std::move(delta));
    }
  }

  void send_end(int32_t index, const Json& reports) {
    const Choice& choice = choices_[static_cast<size_t>(index)];
    Json chunk = chunk_json(index, Json(Json::Object{}), choice.finish_reason);
    if (reports.is_object()) {
      for (const auto& [name, value] : *reports.as_object()) chunk.set(name, value);
    }
    head_.exchange->write(sse(chunk));
  }

  const ReplyHead head_;
  std::vector<Choice> choices_;
  bool began_ = false;
  int32_t num_ended_ = 0;
  int32_t last_ = 0;
  Json reports_;
};

/// `logprobs` and `top_logprobs`.
void read_chat_logprobs(Fields& fields, engine::GenerateOptions& options) {
  const bool wanted = fields.boolean("logprobs").value_or(false);
  const auto top = fields.integer("top_logprobs", 0, kMostTopLogprobs);
  if (top && *top > 0 && !wanted) {
    fields.fail("top_logprobs", "it is allowed only when 'logprobs' is true.");
  }
  if (wanted) options.logprobs = static_cast<int32_t>(top.value_or(0));
}

}  // namespace

void handle_chat_completions(const Call& call) {
  const std::optional<Json> body = read_body(call);
  if (!body) return;
  const Backend& backend = *call.serving.backend();
  Fields fields(*body);
  check_model(call.serving, fields);
  ChatParams chat = read_chat(fields);
  GenerationParams params = read_generation(fields, call.serving.defaults());
  read_chat_logprobs(fields, params.options);
  const ChatWindow window = read_chat_window(fields, *body, params.options.max_tokens, chat);
  if (fields.error()) return reply(call, *fields.error());

  ApiResult<FittedChat> fitted =
      fit_chat(call.serving, backend, chat, window, params.options.max_tokens);
  if (!fitted.ok()) return reply(call, fitted.error());
  params.options.max_tokens = fitted->max_tokens;
  ChatPrompt* const rendered = &fitted->prompt;
  auto constraint = make_constraint(backend, chat, *rendered);
  if (!constraint.ok()) return reply(call, constraint.error());

  ReplyHead head{
      .backend = backend,
      .exchange = call.exchange,
      .id = call.serving.new_id("chatcmpl-"),
      .model = model_name(call.serving, *body),
      .created = unix_seconds(),
      .choices = params.choices,
      .include_usage = params.include_usage,
      .return_progress = params.return_progress,
      .return_tokens = params.return_tokens,
      .logprobs = params.options.logprobs.has_value(),
      .max_tokens = params.options.max_tokens,
      .window_report = fitted->report ? context::window::context_json(*fitted->report) : Json()};
  AnswerPlan plan{.id = head.id,
                  .route = "/v1/chat/completions",
                  .tenant = call.tenant,
                  .prompts = {},
                  .params = std::move(params),
                  .constraint = std::move(*constraint),
                  .format = rendered->format,
                  .one_call = !chat.parallel_tool_calls};
  plan.prompts.push_back(std::move(rendered->prompt));
  std::unique_ptr<AnswerSink> sink;
  if (plan.params.stream) {
    sink = std::make_unique<StreamedChatReply>(std::move(head));
  } else {
    sink = std::make_unique<WholeChatReply>(std::move(head));
  }
  std::make_shared<AnswerTask>(call.serving, call.exchange, std::move(plan), std::move(sink))
      ->start();
}

}  // namespace quire::server
