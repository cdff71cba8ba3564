#include "server/responses_reply.h"

#include <fmt/format.h>

#include "base/utf8.h"
#include "server/api_error.h"
#include "server/reply_json.h"

namespace quire::server {
namespace {

using context::AnswerEvent;
using formats::Json;

/// An event that shows the response as it stands.
std::string response_event(std::string_view type, int64_t sequence, Json response) {
  Json json;
  json.set("type", type);
  json.set("sequence_number", sequence);
  json.set("response", std::move(response));
  return fmt::format("event: {}\n{}", type, sse(json));
}

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
  explicit ResponsesReply(ResponsesReplyHead head) : head_(std::move(head)) {}

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
    if (head_.epoch.is_null()) return;
    Json context = *reports_.find("context");
    context.set("epoch", head_.epoch);
    reports_.set("context", std::move(context));
  }

  void finish(const Usage& usage) override {
    usage_ = usage_of(usage);
    ResponseEnd end{.exchange = head_.exchange,
                    .stream = head_.stream,
                    .sequence = sequence_,
                    .response = response_json(status_)};
    if (head_.keep) return head_.keep(std::move(end));
    end.send();
  }

  void fail(const ApiError& error) override {
    if (!began_) return head_.exchange->respond(to_response(error));
    ResponseEnd{.exchange = head_.exchange,
                .stream = true,
                .sequence = sequence_,
                .response = response_json("failed")}
        .fail(error);
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
    json.set("error", Json());
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
    head_.exchange->write(response_event(type, sequence_++, response_json(status)));
  }

  const ResponsesReplyHead head_;
  bool began_ = false;
  int64_t sequence_ = 0;
  Open open_ = Open::kNothing;
  std::string id_;    // of the open item
  std::string text_;  // of it
  Json::Array output_;
  std::string status_ = "completed";
  Json usage_, reports_;
};

}  // namespace

void ResponseEnd::send() const {
  if (!stream) return exchange->respond({.body = response.dump()});
  const bool completed = *response.find("status") == Json("completed");
  exchange->write(
      response_event(completed ? "response.completed" : "response.incomplete", sequence, response));
  exchange->end_stream();
}

void ResponseEnd::fail(const ApiError& error) const {
  if (!stream) return exchange->respond(to_response(error));
  Json inner;
  inner.set("code", error.code.empty() ? "server_error" : error.code);
  inner.set("message", utf8_sanitized(error.message));
  Json failed = response;
  failed.set("status", "failed");
  failed.set("incomplete_details", Json());
  failed.set("error", std::move(inner));
  exchange->write(response_event("response.failed", sequence, std::move(failed)));
  exchange->end_stream();
}

std::unique_ptr<AnswerSink> make_responses_reply(ResponsesReplyHead head) {
  return std::make_unique<ResponsesReply>(std::move(head));
}

}  // namespace quire::server
