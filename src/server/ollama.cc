// Ollama's API: /api/version, tags, show, ps, chat, generate. Streams are lines of JSON.
#include <fmt/format.h>

#include <chrono>

#include "base/utf8.h"
#include "server/answer_task.h"
#include "server/chat_prompt.h"
#include "server/event_log.h"
#include "server/ollama_params.h"
#include "server/reply_json.h"
#include "server/routes.h"

namespace quire::server {
namespace {

using context::AnswerEvent;
using formats::Json;
using Clock = std::chrono::steady_clock;

// Clients ask for the least version of Ollama that has what they use; this API is that of 0.9.
constexpr std::string_view kApiVersion = "0.9.0";
constexpr std::string_view kNdjson = "application/x-ndjson";
constexpr std::string_view kLatest = ":latest";

enum class Kind : uint8_t { kChat, kGenerate };

struct ReplyHead {
  std::shared_ptr<HttpExchange> exchange;
  Kind kind = Kind::kChat;
  std::string model;
  bool stream = true;
  Clock::time_point arrived = Clock::now();
};

int64_t nanoseconds(double ms) {
  return static_cast<int64_t>(ms * 1e6);
}

/// {function: {name, arguments}}, with arguments as an object.
Json call_json(const context::ToolCall& call) {
  const Result<Json> arguments = Json::parse(call.arguments, "arguments");
  Json function;
  function.set("name", utf8_sanitized(call.name));
  function.set("arguments", arguments.ok() ? *arguments : Json(Json::Object{}));
  Json json;
  json.set("function", std::move(function));
  return json;
}

class OllamaReply : public AnswerSink {
 public:
  explicit OllamaReply(ReplyHead head) : head_(std::move(head)) {}

  void begin() override {
    if (!head_.stream) return;
    began_ = true;
    head_.exchange->begin_stream(kNdjson, "");
  }
  void progress(const PrefillProgress&) override {}

  void piece(AnswerPiece piece) override {
    for (AnswerEvent& event : piece.events) {
      if (event.kind == AnswerEvent::Kind::kContent) content_ += event.text;
      if (event.kind == AnswerEvent::Kind::kReasoning) thinking_ += event.text;
      if (event.kind == AnswerEvent::Kind::kToolCall) calls_.push_back(call_json(event.call));
    }
    const bool news = !content_.empty() || !thinking_.empty() || !calls_.empty();
    if (head_.stream && news) write(part_json(false));
  }

  void ended(AnswerEnd end) override {
    reason_ = end.finish_reason == "length" ? "length" : "stop";
    generated_ = std::move(end.generated);
  }

  void finish(const Usage& usage) override {
    Json json = part_json(true);
    const double total_ms =
        std::chrono::duration<double, std::milli>(Clock::now() - head_.arrived).count();
    double eval_ms = 0.0;
    for (const double gap : generated_.timings.gaps_ms) eval_ms += gap;
    json.set("done_reason", reason_);
    json.set("total_duration", nanoseconds(total_ms));
    json.set("load_duration", int64_t{0});
    json.set("prompt_eval_count", usage.prompt_tokens);
    json.set("prompt_eval_duration", nanoseconds(generated_.timings.prefill_ms));
    json.set("eval_count", usage.completion_tokens);
    json.set("eval_duration", nanoseconds(eval_ms));
    if (!head_.stream) return head_.exchange->respond({.body = json.dump()});
    write(json);
    head_.exchange->end_stream();
  }

  void fail(const ApiError& error) override {
    if (!began_) return head_.exchange->respond(to_ollama_response(error));
    Json json;
    json.set("error", utf8_sanitized(error.message));
    write(json);
    head_.exchange->end_stream();
  }

 private:
  /// What there is since the last part.
  Json part_json(bool done) {
    Json json;
    json.set("model", head_.model);
    json.set("created_at", utc_timestamp());
    if (head_.kind == Kind::kGenerate) {
      json.set("response", std::exchange(content_, ""));
      if (!thinking_.empty()) json.set("thinking", std::exchange(thinking_, ""));
    } else {
      Json message;
      message.set("role", "assistant");
      message.set("content", std::exchange(content_, ""));
      if (!thinking_.empty()) message.set("thinking", std::exchange(thinking_, ""));
      if (!calls_.empty()) message.set("tool_calls", Json(std::exchange(calls_, {})));
      json.set("message", std::move(message));
    }
    json.set("done", done);
    return json;
  }

  void write(const Json& json) { head_.exchange->write(json.dump() + "\n"); }

  const ReplyHead head_;
  bool began_ = false;
  std::string content_, thinking_;
  Json::Array calls_;
  std::string reason_;
  engine::Generated generated_;
};

/// What Ollama says when it was asked to load a model, and did.
void reply_loaded(const Call& call, const std::string& model, Kind kind) {
  Json json;
  json.set("model", model);
  json.set("created_at", utc_timestamp());
  if (kind == Kind::kChat) {
    Json message;
    message.set("role", "assistant");
    message.set("content", "");
    json.set("message", std::move(message));
  } else {
    json.set("response", "");
  }
  json.set("done", true);
  json.set("done_reason", "load");
  reply(call, json);
}

ApiResult<ChatPrompt> render(const engine::Model& model, const OllamaRequest& request, Kind kind) {
  const bool continues = kind == Kind::kGenerate && (request.raw || !model.chat_template());
  if (!continues) return render_chat(model, request.chat);
  return ChatPrompt{engine::raw_prompt(model.tokenizer(), request.prompt, engine::RawText::kParse,
                                       engine::AddSpecial::kAsModel),
                    {}};
}

/// `num_ctx` may narrow the window for a request, not widen it.
std::optional<ApiError> check_num_ctx(const Backend& backend, const OllamaRequest& request,
                                      int64_t prompt_tokens) {
  if (!request.num_ctx) return std::nullopt;
  const int64_t window = backend.engine.window().tokens;
  if (*request.num_ctx > window) {
    return bad_param("options.num_ctx",
                     fmt::format("options.num_ctx {} is more than this server's window of {} "
                                 "tokens; start it with a larger --ctx if the model allows it.",
                                 *request.num_ctx, window));
  }
  const auto most = request.params.options.max_tokens;
  if (prompt_tokens + most.value_or(1) <= *request.num_ctx) return std::nullopt;
  return context_exceeded(*request.num_ctx, prompt_tokens, most, "options.num_ctx");
}

void answer(const Call& call, Kind kind) {
  const std::optional<Json> body = read_body(call);
  if (!body) return;
  const Backend& backend = *call.serving.backend();
  Fields fields(*body);
  check_model(call.serving, fields);
  OllamaRequest request = kind == Kind::kChat
                              ? read_ollama_chat(fields, call.serving.defaults())
                              : read_ollama_generate(fields, call.serving.defaults());
  if (fields.error()) return reply(call, *fields.error());
  const std::string model = model_name(call.serving, *body);
  if (request.only_loads) return reply_loaded(call, model, kind);

  ApiResult<ChatPrompt> rendered = render(backend.model, request, kind);
  if (!rendered.ok()) return reply(call, rendered.error());
  const auto prompt_tokens = static_cast<int64_t>(rendered->prompt.tokens.size());
  if (const auto misfit = check_num_ctx(backend, request, prompt_tokens)) {
    return reply(call, *misfit);
  }
  auto& max_tokens = request.params.options.max_tokens;
  if (request.num_ctx && !max_tokens) max_tokens = *request.num_ctx - prompt_tokens;
  const auto misfit = check_window(call.serving, backend, prompt_tokens, max_tokens, "messages");
  if (misfit) return reply(call, *misfit);
  auto constraint = make_constraint(backend, request.chat, *rendered);
  if (!constraint.ok()) return reply(call, constraint.error());

  const bool chat = kind == Kind::kChat;
  AnswerPlan plan{.id = call.serving.new_id("ollama-"),
                  .route = chat ? "/api/chat" : "/api/generate",
                  .tenant = call.tenant,
                  .prompts = {},
                  .params = std::move(request.params),
                  .constraint = std::move(*constraint),
                  .format = rendered->format};
  plan.prompts.push_back(std::move(rendered->prompt));
  auto sink = std::make_unique<OllamaReply>(ReplyHead{
      .exchange = call.exchange, .kind = kind, .model = model, .stream = plan.params.stream});
  std::make_shared<AnswerTask>(call.serving, call.exchange, std::move(plan), std::move(sink))
      ->start();
}

Json details_json(const Backend& backend) {
  const std::string_view family = backend.model.config().architecture;
  Json json;
  json.set("parent_model", "");
  json.set("format", "gguf");
  json.set("family", family);
  json.set("families", Json(Json::Array{Json(family)}));
  json.set("parameter_size", fmt::format("{:.1f}M", static_cast<double>(backend.parameters) / 1e6));
  json.set("quantization_level", backend.weight_types);
  return json;
}

Json model_json(const Call& call, const std::string& name) {
  const Backend& backend = *call.serving.backend();
  const Digest digest = backend.model.description();
  Json json;
  json.set("name", name + std::string(kLatest));
  json.set("model", name + std::string(kLatest));
  json.set("size", backend.model.weights_bytes());
  json.set("digest", fmt::format("{:016x}{:016x}", digest.high, digest.low));
  json.set("details", details_json(backend));
  return json;
}

}  // namespace

void handle_ollama_version(const Call& call) {
  Json json;
  json.set("version", kApiVersion);
  reply(call, json);
}

void handle_ollama_tags(const Call& call) {
  Json models(Json::Array{});
  for (const std::string& name : call.serving.options().names) {
    Json model = model_json(call, name);
    model.set("modified_at", utc_timestamp());
    models.push_back(std::move(model));
  }
  Json json;
  json.set("models", std::move(models));
  reply(call, json);
}

void handle_ollama_ps(const Call& call) {
  Json model = model_json(call, call.serving.model_id());
  model.set("size_vram", int64_t{0});
  model.set("context_length", call.serving.backend()->engine.window().tokens);
  model.set("expires_at", "9999-12-31T23:59:59Z");  // it stays loaded
  Json json;
  json.set("models", Json(Json::Array{std::move(model)}));
  reply(call, json);
}

void handle_ollama_show(const Call& call) {
  const std::optional<Json> body = read_body(call);
  if (!body) return;
  Fields fields(*body);
  check_model(call.serving, fields);
  if (fields.error()) return reply(call, *fields.error());
  const Backend& backend = *call.serving.backend();
  const std::string& family = backend.model.config().architecture;
  Json info;
  info.set("general.architecture", family);
  info.set("general.parameter_count", backend.parameters);
  info.set(family + ".context_length", int64_t{backend.model.config().context});
  info.set("quire.window", backend.engine.window().tokens);
  Json capabilities(Json::Array{Json("completion")});
  if (const context::ChatTemplate* chat_template = backend.model.chat_template()) {
    if (chat_template->traits().tools) capabilities.push_back("tools");
    if (chat_template->traits().reasoning_tags) capabilities.push_back("thinking");
  }
  Json json;
  json.set("modelfile", "");
  json.set("parameters", "");
  json.set("template", backend.template_source);
  json.set("details", details_json(backend));
  json.set("model_info", std::move(info));
  json.set("capabilities", std::move(capabilities));
  json.set("modified_at", utc_timestamp());
  reply(call, json);
}

void handle_ollama_chat(const Call& call) {
  answer(call, Kind::kChat);
}

void handle_ollama_generate(const Call& call) {
  answer(call, Kind::kGenerate);
}

}  // namespace quire::server
