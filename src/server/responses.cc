// POST /v1/responses, whole and streamed.
#include <fmt/format.h>

#include "base/utf8.h"
#include "server/answer_task.h"
#include "server/chat_prompt.h"
#include "server/chat_window.h"
#include "server/reply_json.h"
#include "server/responses_params.h"
#include "server/routes.h"

namespace quire::server {
namespace {

using context::AnswerEvent;
using formats::Json;

struct ReplyHead {
  const Backend& backend;
  std::shared_ptr<HttpExchange> exchange;
  std::string id;  // "resp_..."
  bool stream = false;
  std::optional<int64_t> max_tokens;
  Json window_report;  // null: the request said nothing of its window
  Json request_echo;   // what replies repeat of the request
};

Json usage_of(const Usage& usage) {
  Json in;
  in.set("cached_tokens", usage.cached_tokens);
  Json out;
  out.set("reasoning_tokens", usage.reasoning_tokens);
  Json json;
  json.set("input_tokens", usage.prompt_tokens);
  json.set("input_tokens_details", std::move(in));
  json.set("output_tokens", usage.completion_tokens);
  json.set("output_tokens_details", std::move(out));
  json.set("total_tokens", usage.prompt_tokens + usage.completion_tokens);
  return json;
}

class ResponsesReply : public AnswerSink {
 public:
  explicit ResponsesReply(ReplyHead head) : head_(std::move(head)) {}

  void begin() override {
    if (!head_.stream) return;
    began_ = true;
    head_.exchange->begin_stream(kSseType, kSseHeartbeat);
    emit_response("response.created", "in_progress");
    emit_response("response.in_progress", "in_progress");
  }
  void progress(const PrefillProgress&) override {}

  void piece(AnswerPiece piece) override {
    for (AnswerEvent& event : piece.events) {
      switch (event.kind) {
        case AnswerEvent::Kind::kContent:
          add_text(Open::kMessage, event.text);
          break;
        case AnswerEvent::Kind::kReasoning:
          add_text(Open::kReasoning, event.text);
          break;
        case AnswerEvent::Kind::kToolCall:
          add_call(event.call);
          break;
      }
    }
  }

  void ended(AnswerEnd end) override {
    close_item();
    if (end.finish_reason == "length") status_ = "incomplete";
    set_reports(reports_, head_.backend, end, head_.max_tokens, head_.window_report);
  }

  void finish(const Usage& usage) override {
    usage_ = usage_of(usage);
    if (!head_.stream) return head_.exchange->respond({.body = response_json(status_).dump()});
    emit_response(status_ == "completed" ? "response.completed" : "response.incomplete", status_);
    head_.exchange->end_stream();
  }

  void fail(const ApiError& error) override {
    if (!began_) return head_.exchange->respond(to_response(error));
    Json inner;
    inner.set("code", error.code.empty() ? "server_error" : error.code);
    inner.set("message", utf8_sanitized(error.message));
    error_ = std::move(inner);
    emit_response("response.failed", "failed");
    head_.exchange->end_stream();
  }

 private:
  enum class Open : uint8_t { kNothing, kMessage, kReasoning };

  std::string item_id(std::string_view prefix) const {
    return fmt::format("{}_{}_{}", prefix, head_.id.substr(head_.id.find('_') + 1), output_.size());
  }
  int64_t index() const { return static_cast<int64_t>(output_.size()); }

  Json part_json(const std::string& text) const {
    Json part;
    part.set("type", open_ == Open::kMessage ? "output_text" : "reasoning_text");
    part.set("text", text);
    if (open_ == Open::kMessage) {
      part.set("annotations", Json(Json::Array{}));
      part.set("logprobs", Json(Json::Array{}));
    }
    return part;
  }
  Json item_json(std::string_view status) const {
    Json content(Json::Array{});
    if (status == "completed") content.push_back(part_json(text_));
    Json item;
    item.set("id", id_);
    item.set("type", open_ == Open::kMessage ? "message" : "reasoning");
    if (open_ == Open::kMessage) {
      item.set("role", "assistant");
    } else {
      item.set("summary", Json(Json::Array{}));
    }
    item.set("status", status);
    item.set("content", std::move(content));
    return item;
  }
  std::string_view text_event() const {
    return open_ == Open::kMessage ? "response.output_text" : "response.reasoning_text";
  }

  void add_text(Open kind, const std::string& text) {
    if (open_ != kind) {
      close_item();
      open_ = kind;
      id_ = item_id(kind == Open::kMessage ? "msg" : "rs");
      emit("response.output_item.added", {{"item", item_json("in_progress")}});
      emit_part("response.content_part.added", {{"part", part_json("")}});
    }
    text_ += text;
    emit_part(std::string(text_event()) + ".delta", {{"delta", text}});
  }

  void close_item() {
    if (open_ == Open::kNothing) return;
    emit_part(std::string(text_event()) + ".done", {{"text", text_}});
    emit_part("response.content_part.done", {{"part", part_json(text_)}});
    Json item = item_json("completed");
    emit("response.output_item.done", {{"item", item}});
    output_.push_back(std::move(item));
    open_ = Open::kNothing;
    text_.clear();
  }

  void add_call(const context::ToolCall& call) {
    close_item();
    const std::string arguments = utf8_sanitized(call.arguments);
    Json item;
    id_ = item_id("fc");
    item.set("id", id_);
    item.set("type", "function_call");
    item.set("status", "in_progress");
    item.set("call_id", item_id("call"));
    item.set("name", utf8_sanitized(call.name));
    item.set("arguments", "");
    emit("response.output_item.added", {{"item", item}});
    emit_with_item("response.function_call_arguments.delta", {{"delta", arguments}});
    emit_with_item("response.function_call_arguments.done",
                   {{"arguments", arguments}, {"name", utf8_sanitized(call.name)}});
    item.set("arguments", arguments);
    item.set("status", "completed");
    emit("response.output_item.done", {{"item", item}});
    output_.push_back(std::move(item));
  }

  Json response_json(std::string_view status) const {
    Json json;
    json.set("id", head_.id);
    json.set("object", "response");
    for (const auto& [name, value] : *head_.request_echo.as_object()) json.set(name, value);
    json.set("status", status);
    json.set("error", error_);
    Json details;
    if (status == "incomplete") details.set("reason", "max_output_tokens");
    json.set("incomplete_details", std::move(details));
    json.set("output", Json(output_));
    json.set("usage", usage_);
    if (reports_.is_object()) {
      for (const auto& [name, value] : *reports_.as_object()) json.set(name, value);
    }
    return json;
  }

  void emit(std::string_view type, Json::Object members) {
    if (!head_.stream) return;
    Json json;
    json.set("type", type);
    json.set("sequence_number", sequence_++);
    json.set("output_index", index());
    for (auto& [name, value] : members) json.set(name, std::move(value));
    head_.exchange->write(fmt::format("event: {}\n{}", type, sse(json)));
  }
  void emit_with_item(std::string_view type, Json::Object members) {
    members.emplace_back("item_id", id_);
    emit(type, std::move(members));
  }
  void emit_part(std::string_view type, Json::Object members) {
    members.emplace_back("content_index", int64_t{0});
    if (type.starts_with("response.output_text")) {
      members.emplace_back("logprobs", Json(Json::Array{}));
    }
    emit_with_item(type, std::move(members));
  }
  void emit_response(std::string_view type, std::string_view status) {
    Json json;
    json.set("type", type);
    json.set("sequence_number", sequence_++);
    json.set("response", response_json(status));
    head_.exchange->write(fmt::format("event: {}\n{}", type, sse(json)));
  }

  const ReplyHead head_;
  bool began_ = false;
  int64_t sequence_ = 0;
  Open open_ = Open::kNothing;
  std::string id_;    // of the open item
  std::string text_;  // of it
  Json::Array output_;
  std::string status_ = "completed";
  Json usage_, reports_, error_;
};

/// What the reply repeats of the request.
Json echo(const Json& body, const std::string& model, const GenerationParams& params) {
  const auto given = [&](std::string_view name, Json otherwise) {
    const Json* value = body.find(name);
    return value != nullptr && !value->is_null() ? *value : otherwise;
  };
  Json text_format;
  text_format.set("type", "text");
  Json text;
  text.set("format", std::move(text_format));
  Json json;
  json.set("created_at", unix_seconds());
  json.set("model", model);
  json.set("instructions", given("instructions", Json()));
  json.set("max_output_tokens", given("max_output_tokens", Json()));
  json.set("metadata", given("metadata", Json(Json::Object{})));
  json.set("parallel_tool_calls", given("parallel_tool_calls", true));
  json.set("previous_response_id", Json());
  json.set("reasoning", given("reasoning", Json()));
  json.set("store", false);
  json.set("temperature", params.options.sampling.temperature);
  json.set("top_p", params.options.sampling.top_p);
  json.set("text", given("text", std::move(text)));
  json.set("tool_choice", given("tool_choice", "auto"));
  json.set("tools", given("tools", Json(Json::Array{})));
  json.set("truncation", "disabled");
  return json;
}

}  // namespace

void handle_responses(const Call& call) {
  const std::optional<Json> body = read_body(call);
  if (!body) return;
  const Backend& backend = *call.serving.backend();
  Fields fields(*body);
  check_model(call.serving, fields);
  ResponsesRequest request = read_responses(fields, call.serving.defaults());
  const ChatWindow window =
      read_chat_window(fields, *body, request.params.options.max_tokens, request.chat);
  if (fields.error()) return reply(call, *fields.error());
  ApiResult<FittedChat> fitted =
      fit_chat(call.serving, backend, request.chat, window, request.params.options.max_tokens);
  if (!fitted.ok()) {
    ApiError error = fitted.error();
    if (error.param == "messages") error.param = "input";
    return reply(call, error);
  }
  request.params.options.max_tokens = fitted->max_tokens;
  ChatPrompt* const rendered = &fitted->prompt;
  auto constraint = make_constraint(backend, request.chat, *rendered);
  if (!constraint.ok()) return reply(call, constraint.error());

  ReplyHead head{
      .backend = backend,
      .exchange = call.exchange,
      .id = call.serving.new_id("resp_"),
      .stream = request.params.stream,
      .max_tokens = request.params.options.max_tokens,
      .window_report = fitted->report ? context::window::context_json(*fitted->report) : Json(),
      .request_echo = echo(*body, model_name(call.serving, *body), request.params)};
  AnswerPlan plan{.id = head.id,
                  .route = "/v1/responses",
                  .tenant = call.tenant,
                  .prompts = {},
                  .params = std::move(request.params),
                  .constraint = std::move(*constraint),
                  .format = rendered->format,
                  .one_call = !request.chat.parallel_tool_calls};
  plan.prompts.push_back(std::move(rendered->prompt));
  std::make_shared<AnswerTask>(call.serving, call.exchange, std::move(plan),
                               std::make_unique<ResponsesReply>(std::move(head)))
      ->start();
}

}  // namespace quire::server
