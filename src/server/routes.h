// routes.h: every address the server answers, in one table.
//
// dispatch() is what happens to each request before its handler: host and origin are checked, then
// the key, then method and path, then whether the model is there. Any thread.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/api_error.h"
#include "server/http.h"
#include "server/serving.h"

namespace quire::server {

/// One request on its way to its handler.
struct Call {
  Serving& serving;
  std::shared_ptr<HttpExchange> exchange;
  std::string tenant;
  std::string owner;                  // of what is stored
  std::vector<std::string> captures;  // what the route's '*' stand for, decoded
};

enum class Access : uint8_t { kOpen, kKey };
enum class Needs : uint8_t { kNothing, kModel, kStore };

struct Route {
  std::string_view method;
  std::string_view path;  // '*' stands for one segment, '**' at the end for any rest
  void (*handle)(const Call& call);
  Access access = Access::kKey;
  Needs needs = Needs::kModel;
};

std::span<const Route> routes();

/// Answers one request, or hands it to its route.
void dispatch(Serving& serving, std::shared_ptr<HttpExchange> exchange);

// The handlers, each in the file of its family.
void handle_health(const Call& call);
void handle_root(const Call& call);
void handle_metrics(const Call& call);
void handle_props(const Call& call);
void handle_debug_pages(const Call& call);
void handle_models(const Call& call);
void handle_model(const Call& call);
void handle_tokenize(const Call& call);
void handle_detokenize(const Call& call);
void handle_apply_template(const Call& call);
void handle_input_tokens(const Call& call);
void handle_chat_completions(const Call& call);
void handle_completions(const Call& call);
void handle_responses(const Call& call);
void handle_response(const Call& call);
void handle_delete_response(const Call& call);
void handle_response_input_items(const Call& call);
void handle_create_conversation(const Call& call);
void handle_conversation(const Call& call);
void handle_update_conversation(const Call& call);
void handle_delete_conversation(const Call& call);
void handle_add_items(const Call& call);
void handle_items(const Call& call);
void handle_item(const Call& call);
void handle_delete_item(const Call& call);
void handle_context_count(const Call& call);
void handle_context_plan(const Call& call);
void handle_context_compact(const Call& call);
void handle_ollama_version(const Call& call);
void handle_ollama_tags(const Call& call);
void handle_ollama_ps(const Call& call);
void handle_ollama_show(const Call& call);
void handle_ollama_chat(const Call& call);
void handle_ollama_generate(const Call& call);

/// Shorthands of the handlers.
void reply(const Call& call, const formats::Json& json);
void reply(const Call& call, const ApiError& error);
/// The body as an object, or nothing after having answered with the error.
std::optional<formats::Json> read_body(const Call& call);
/// `model`: an error if it is there and not served here.
void check_model(const Serving& serving, Fields& fields);
/// What the reply calls the model: what the request did, or its id.
std::string model_name(const Serving& serving, const formats::Json& body);

}  // namespace quire::server
