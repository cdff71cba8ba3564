#include "loadtest/chat_call.h"

#include <fmt/format.h>

#include <algorithm>

#include "formats/printable.h"
#include "loadtest/sse.h"

namespace quire::loadtest {
namespace {

using Clock = std::chrono::steady_clock;
using formats::Json;

constexpr size_t kMostReplyBytes = 64 << 20;

std::vector<std::pair<std::string, std::string>> headers_of(const Target& target) {
  std::vector<std::pair<std::string, std::string>> headers = {
      {"Content-Type", "application/json"}, {"Accept", "text/event-stream, application/json"}};
  if (!target.api_key.empty()) headers.push_back({"Authorization", "Bearer " + target.api_key});
  return headers;
}

std::string body_of(const Target& target, const Json& messages) {
  Json options;
  options.set("include_usage", true);
  Json body;
  body.set("model", target.model);
  body.set("messages", messages);
  body.set("max_tokens", target.max_tokens);
  body.set("temperature", 0);
  body.set("stream", true);
  body.set("stream_options", std::move(options));
  if (target.ignore_eos) body.set("ignore_eos", true);
  return body.dump();
}

const Json* first_of(const Json* array) {
  return array != nullptr && array->is_array() && !array->as_array()->empty()
             ? &array->as_array()->front()
             : nullptr;
}

int64_t number(const Json* object, const char* key) {
  const Json* value = object == nullptr ? nullptr : object->find(key);
  return value == nullptr ? 0 : std::max<int64_t>(value->as_int().value_or(0), 0);
}

/// The server's own words, where it said some.
std::string error_text(int32_t status, std::string_view body) {
  const auto json = Json::parse(body, "the reply");
  const Json* error = json.ok() ? json->find("error") : nullptr;
  const Json* message = error == nullptr ? nullptr : error->find("message");
  const std::string said =
      message != nullptr && message->is_string() ? *message->as_string() : std::string(body);
  return fmt::format("HTTP {}: {}", status, formats::printable(said));
}

/// Notes what each event of one reply says, and when.
class Recorder {
 public:
  Recorder(ChatReply& reply, Clock::time_point origin) : reply_(reply), origin_(origin) {}

  double now() const { return std::chrono::duration<double>(Clock::now() - origin_).count(); }

  void take(std::string_view data) {
    if (data == "[DONE]") {
      finished_ = true;
      return;
    }
    const auto event = Json::parse(data, "an event");
    if (!event.ok()) {
      reply_.record.error = "the stream holds an event that is no JSON";
      return;
    }
    if (const Json* error = event->find("error")) {
      reply_.record.error = formats::printable(error->dump());
      return;
    }
    if (const Json* usage = event->find("usage"); usage != nullptr && usage->is_object()) {
      reply_.record.prompt_tokens = number(usage, "prompt_tokens");
      reply_.record.output_tokens = number(usage, "completion_tokens");
      reply_.record.cached_tokens = number(usage->find("prompt_tokens_details"), "cached_tokens");
    }
    const Json* choice = first_of(event->find("choices"));
    const Json* delta = choice == nullptr ? nullptr : choice->find("delta");
    if (delta != nullptr) take_delta(*delta);
  }

  bool finished() const { return finished_; }
  int64_t chunks() const { return chunks_; }

 private:
  void take_delta(const Json& delta) {
    bool says_something = first_of(delta.find("tool_calls")) != nullptr;
    for (const char* key : {"content", "reasoning_content", "reasoning"}) {
      const Json* text = delta.find(key);
      if (text == nullptr || !text->is_string() || text->as_string()->empty()) continue;
      says_something = true;
      if (key == std::string_view("content") && reply_.text.size() < kMostReplyBytes) {
        reply_.text += *text->as_string();
      }
    }
    if (!says_something) return;
    const double time = now();
    if (reply_.record.first_token) {
      reply_.record.gaps.push_back(time - last_);
    } else {
      reply_.record.first_token = time;
    }
    last_ = time;
    ++chunks_;
  }

  ChatReply& reply_;
  Clock::time_point origin_;
  double last_ = 0.0;
  int64_t chunks_ = 0;
  bool finished_ = false;
};

}  // namespace

ChatReply call_chat(const Target& target, const Json& messages, const Patience& patience,
                    Clock::time_point origin) {
  const HttpRequest request{.method = "POST",
                            .path = "/v1/chat/completions",
                            .headers = headers_of(target),
                            .body = body_of(target, messages)};
  ChatReply reply;
  Recorder recorder(reply, origin);
  SseReader events([&](std::string_view data) { recorder.take(data); });
  std::string beginning;  // for an error's sake
  reply.record.sent = recorder.now();
  const auto status = exchange(target.address, request, patience, [&](std::string_view bytes) {
    if (beginning.size() < 4096) beginning += bytes.substr(0, 4096);
    return events.push(bytes);
  });
  reply.record.done = recorder.now();
  CallRecord& record = reply.record;
  if (!status.ok()) {
    record.error = status.error().message;
  } else if (*status != 200) {
    record.error = error_text(*status, beginning);
  } else if (record.error.empty() && !recorder.finished()) {
    record.error = "the stream ended without [DONE]";
  }
  if (record.output_tokens == 0) record.output_tokens = recorder.chunks();
  return reply;
}

Result<Json> get_json(const Target& target, const std::string& path, const Patience& patience) {
  std::string body;
  const HttpRequest request{
      .method = "GET", .path = path, .headers = headers_of(target), .body = {}};
  QUIRE_TRY(const int32_t status, exchange(target.address, request, patience, [&](auto bytes) {
              body += bytes;
              return body.size() <= kMostReplyBytes;
            }));
  if (status != 200) return Error{ErrorCode::kIo, error_text(status, body)};
  return Json::parse(body, "the reply to " + path);
}

Result<std::string> first_model(const Target& target, const Patience& patience) {
  QUIRE_TRY(const Json models, get_json(target, "/v1/models", patience));
  const Json* first = first_of(models.find("data"));
  const Json* id = first == nullptr ? nullptr : first->find("id");
  if (id == nullptr || !id->is_string()) {
    return Error{ErrorCode::kNotFound, "the server lists no model; name one with --model"};
  }
  return *id->as_string();
}

}  // namespace quire::loadtest
