// POST /v1/responses: what is asked, what was said before, and where the answer is kept.
#include <fmt/format.h>

#include "formats/printable.h"
#include "server/answer_task.h"
#include "server/chat_prompt.h"
#include "server/chat_window.h"
#include "server/epochs.h"
#include "server/reply_json.h"
#include "server/responses_params.h"
#include "server/responses_reply.h"
#include "server/routes.h"
#include "server/stored_responses.h"

namespace quire::server {
namespace {

using formats::Json;

/// A request that has been read, while the store is asked what came before it.
struct Asked {
  Call call;
  Json body;
  ResponsesRequest request;
  std::optional<History> history;
  context::window::WindowPolicy policy = {};
  std::string salt = {};
};

/// What the reply repeats of the request.
Json echo(const Json& body, const std::string& model, const ResponsesRequest& request) {
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
  json.set("metadata", request.metadata);
  json.set("parallel_tool_calls", given("parallel_tool_calls", true));
  json.set("previous_response_id", given("previous_response_id", Json()));
  const std::string& named = request.continuation.conversation;
  Json conversation;
  if (!named.empty()) conversation.set("id", named);
  json.set("conversation", std::move(conversation));
  json.set("reasoning", given("reasoning", Json()));
  json.set("store", request.continuation.store);
  json.set("temperature", request.params.options.sampling.temperature);
  json.set("top_p", request.params.options.sampling.top_p);
  json.set("text", given("text", std::move(text)));
  json.set("tool_choice", given("tool_choice", "auto"));
  json.set("tools", given("tools", Json(Json::Array{})));
  json.set("truncation", "disabled");
  return json;
}

/// The items of the request and of its answer, and what they go on with.
Turn turn_of(const Asked& asked, const Json& response) {
  Serving& serving = asked.call.serving;
  Turn turn{.response_id = *response.find("id")->as_string(),
            .response = response,
            .input = {},
            .output = {},
            .model = serving.model_id(),
            .conversation = asked.request.continuation.conversation,
            .history = asked.history};
  if (turn.history) turn.history->items.clear();
  for (const Json& item : asked.request.input) {
    turn.input.push_back({serving.new_id(id_prefix_of(item)), item});
  }
  for (const Json& item : *response.find("output")->as_array()) {
    turn.output.push_back({*item.find("id")->as_string(), item});
  }
  return turn;
}

/// Lets a conversation that has grown long be compacted.
void consider_epoch(const Asked& asked, const Json& response, const Place& place) {
  const Backend& backend = *asked.call.serving.backend();
  const Json* total = response.find("usage")->find("total_tokens");
  if (total->as_int().value_or(0) <= high_watermark(backend, asked.policy)) return;
  Surroundings around{.chat = asked.request.chat,
                      .instructions = asked.request.instructions,
                      .policy = asked.policy};
  around.chat.messages = Json();
  asked.call.serving.epochs()->consider({.place = place,
                                         .tenant = asked.call.tenant,
                                         .salt = asked.salt,
                                         .around = std::move(around)});
}

/// What the reply says of a view that stands for a part of the conversation.
Json epoch_json(const std::optional<History>& history) {
  Json json;
  if (!history || !history->view) return json;
  json.set("view", history->view->value);
  json.set("items", static_cast<int64_t>(history->items.size()));
  json.set("stored_items", history->num_stored);
  return json;
}

/// Stores the answer, and only then lets its end go out.
void keep(const std::shared_ptr<const Asked>& asked, ResponseEnd end) {
  const auto turn = std::make_shared<const Turn>(turn_of(*asked, end.response));
  asked->call.serving.store()->ask<Place>(
      [turn, owner = asked->call.owner](ConversationStore& store) {
        return keep_turn(store, owner, *turn);
      },
      [asked, end = std::move(end)](ApiResult<Place> kept) {
        if (!kept.ok()) return end.fail(kept.error());
        consider_epoch(*asked, end.response, *kept);
        end.send();
      });
}

/// Everything is there: the answer is made.
void answer(const std::shared_ptr<Asked>& asked) {
  const Call& call = asked->call;
  const Backend& backend = *call.serving.backend();
  ResponsesRequest& request = asked->request;
  Fields fields(asked->body);
  const Json epoch = epoch_json(asked->history);
  std::vector<Json> before;
  if (asked->history) {
    for (HistoryItem& item : asked->history->items) before.push_back(std::move(item.stored.item));
    asked->history->items.clear();
  }
  read_conversation_so_far(fields, request, before);
  const ChatWindow window =
      read_chat_window(fields, asked->body, request.params.options.max_tokens, request.chat);
  if (fields.error()) return reply(call, *fields.error());
  if (window) asked->policy = window->policy;
  asked->policy.max_tokens = request.params.options.max_tokens;
  asked->salt = request.params.salt;
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

  ResponsesReplyHead head{
      .backend = backend,
      .exchange = call.exchange,
      .id = call.serving.new_id("resp_"),
      .stream = request.params.stream,
      .max_tokens = request.params.options.max_tokens,
      .window_report = fitted->report ? context::window::context_json(*fitted->report) : Json(),
      .request_echo = echo(asked->body, model_name(call.serving, asked->body), request),
      .epoch = epoch,
      .keep = {}};
  if (request.continuation.store) {
    head.keep = [asked](ResponseEnd end) { keep(asked, std::move(end)); };
  }
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
                               make_responses_reply(std::move(head)))
      ->start();
}

/// An id that is nobody's, or another key's: which of the two is not told.
ApiError unknown_start(const Continuation& continuation) {
  const bool response = !continuation.previous_response.empty();
  ApiError error =
      not_found(response ? fmt::format("Previous response with id '{}' not found.",
                                       formats::printable(continuation.previous_response))
                         : fmt::format("Conversation with id '{}' not found.",
                                       formats::printable(continuation.conversation)));
  error.param = response ? "previous_response_id" : "conversation";
  if (response) error.code = "previous_response_not_found";
  return error;
}

/// Asks the store what the request goes on with, and answers on a worker.
void answer_after_history(const std::shared_ptr<Asked>& asked) {
  using Loaded = std::optional<History>;
  asked->call.serving.store()->ask<Loaded>(
      [&serving = asked->call.serving, owner = asked->call.owner,
       from = asked->request.continuation](ConversationStore& store) -> Result<Loaded> {
        QUIRE_TRY(Loaded history, from.previous_response.empty()
                                      ? history_of_conversation(store, owner, from.conversation)
                                      : history_of_response(store, owner, from.previous_response));
        if (history && from.store) serving.epochs()->cancel(history->conversation);
        return history;
      },
      [asked](ApiResult<Loaded> loaded) {
        if (!loaded.ok()) return reply(asked->call, loaded.error());
        if (!*loaded) return reply(asked->call, unknown_start(asked->request.continuation));
        asked->history = **std::move(loaded);
        asked->call.exchange->post_to_worker([asked] { answer(asked); });
      });
}

}  // namespace

void handle_responses(const Call& call) {
  std::optional<Json> body = read_body(call);
  if (!body) return;
  const auto asked = std::make_shared<Asked>(Asked{call, *std::move(body), {}, std::nullopt});
  Fields fields(asked->body);
  check_model(call.serving, fields);
  asked->request =
      read_responses(fields, call.serving.defaults(),
                     call.serving.store() != nullptr ? Keeps::kConversations : Keeps::kNothing);
  if (fields.error()) return reply(call, *fields.error());
  const Continuation& from = asked->request.continuation;
  if (from.previous_response.empty() && from.conversation.empty()) return answer(asked);
  answer_after_history(asked);
}

}  // namespace quire::server
