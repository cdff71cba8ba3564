// POST /v1/context/count, /plan, /compact: what the window makes of a conversation, without an
// answer to it.
#include <fmt/format.h>

#include "context/window/task_state.h"
#include "server/chat_window.h"
#include "server/routes.h"

namespace quire::server {
namespace {

using context::window::Fitted;
using context::window::Policy;
using context::window::WindowRequest;
using formats::Json;

/// A conversation with what its request says of the window.
struct Asked {
  Json body;
  ChatParams chat;
  WindowRequest window;
};

/// Nothing after having answered with the error.
std::optional<Asked> read_request(const Call& call) {
  std::optional<Json> body = read_body(call);
  if (!body) return std::nullopt;
  Asked asked{.body = *std::move(body), .chat = {}, .window = {}};
  Fields fields(asked.body);
  check_model(call.serving, fields);
  asked.chat = read_chat(fields);
  const auto max_tokens = read_max_tokens(fields);
  ChatWindow window = read_chat_window(fields, asked.body, max_tokens, asked.chat);
  if (fields.error()) {
    reply(call, *fields.error());
    return std::nullopt;
  }
  if (window) asked.window = *std::move(window);
  asked.window.policy.max_tokens = max_tokens;
  return asked;
}

Json part_json(const context::window::Part& part) {
  Json json;
  json.set("part", part.id);
  json.set("kind", name(part.kind));
  json.set("tokens", part.tokens);
  json.set("pinned", part.pin);
  json.set("sha", part.sha);
  return json;
}

Json plan_json(const Fitted& fitted) {
  Json json;
  json.set("context", context::window::context_json(fitted.report));
  json.set("messages", fitted.messages);
  return json;
}

}  // namespace

void handle_context_count(const Call& call) {
  const std::optional<Asked> asked = read_request(call);
  if (!asked) return;
  ApiResult<WindowPlan> plan = plan_chat(*call.serving.backend(), asked->chat, asked->window);
  if (!plan.ok()) return reply(call, plan.error());
  const context::window::Anatomy& anatomy = plan->planner->anatomy();
  Json parts(Json::Array{});
  for (const context::window::Part& part : anatomy.parts) parts.push_back(part_json(part));
  Json json;
  json.set("prompt_tokens", anatomy.prompt.count());
  json.set("window", plan->limits.window);
  json.set("left", plan->limits.window - anatomy.prompt.count());
  json.set("parts", std::move(parts));
  reply(call, json);
}

void handle_context_plan(const Call& call) {
  const std::optional<Asked> asked = read_request(call);
  if (!asked) return;
  ApiResult<WindowPlan> plan = plan_chat(*call.serving.backend(), asked->chat, asked->window);
  if (!plan.ok()) return reply(call, plan.error());
  Result<Fitted> fitted = context::window::fit(*plan->planner, plan->limits);
  if (!fitted.ok()) return reply(call, window_error(fitted.error(), *plan));
  reply(call, plan_json(*fitted));
}

void handle_context_compact(const Call& call) {
  std::optional<Asked> asked = read_request(call);
  if (!asked) return;
  const Json* state = asked->body.find("task_done");
  if (state == nullptr && asked->window.policy.policy == Policy::kReject) {
    asked->window.policy.policy = Policy::kAuto;
  }
  const Backend& backend = *call.serving.backend();
  const auto limits = state == nullptr
                          ? context::window::compacted(limits_of(backend), asked->window.policy)
                          : limits_of(backend);
  ApiResult<WindowPlan> plan = plan_chat(backend, asked->chat, asked->window);
  if (!plan.ok()) return reply(call, plan.error());
  if (state != nullptr) {
    const auto read = context::window::read_task_state(*state, "task_done");
    if (!read.ok()) return reply(call, bad_param("task_done", read.error().message + "."));
    const auto rebuilt = context::window::replace_log(*plan->planner, *read, limits);
    if (!rebuilt.ok()) return reply(call, window_error(rebuilt.error(), *plan));
    Json json = plan_json(rebuilt->fitted);
    json.set("static_prefix_identical", rebuilt->static_prefix_identical);
    return reply(call, json);
  }
  Result<Fitted> fitted = context::window::fit(*plan->planner, limits);
  if (!fitted.ok()) return reply(call, window_error(fitted.error(), *plan));
  reply(call, plan_json(*fitted));
}

}  // namespace quire::server
