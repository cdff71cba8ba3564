#include "server/routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "formats/printable.h"
#include "server/host_check.h"

namespace quire::server {
namespace {

using formats::Json;

constexpr std::array kRoutes = {
    Route{"GET", "/health", handle_health, Access::kOpen, Needs::kNothing},
    Route{"GET", "/", handle_root, Access::kKey, Needs::kNothing},
    Route{"GET", "/metrics", handle_metrics, Access::kKey, Needs::kNothing},
    Route{"GET", "/props", handle_props},
    Route{"GET", "/debug/pages", handle_debug_pages},
    Route{"GET", "/v1/models", handle_models},
    Route{"GET", "/v1/models/**", handle_model},
    Route{"POST", "/tokenize", handle_tokenize},
    Route{"POST", "/detokenize", handle_detokenize},
    Route{"POST", "/apply-template", handle_apply_template},
    Route{"POST", "/v1/chat/completions", handle_chat_completions},
    Route{"POST", "/v1/chat/completions/input_tokens", handle_input_tokens},
    Route{"POST", "/v1/completions", handle_completions},
    Route{"POST", "/v1/responses", handle_responses},
    Route{"GET", "/v1/responses/*", handle_response, Access::kKey, Needs::kStore},
    Route{"DELETE", "/v1/responses/*", handle_delete_response, Access::kKey, Needs::kStore},
    Route{"GET", "/v1/responses/*/input_items", handle_response_input_items, Access::kKey,
          Needs::kStore},
    Route{"POST", "/v1/conversations", handle_create_conversation, Access::kKey, Needs::kStore},
    Route{"GET", "/v1/conversations/*", handle_conversation, Access::kKey, Needs::kStore},
    Route{"POST", "/v1/conversations/*", handle_update_conversation, Access::kKey, Needs::kStore},
    Route{"DELETE", "/v1/conversations/*", handle_delete_conversation, Access::kKey, Needs::kStore},
    Route{"POST", "/v1/conversations/*/items", handle_add_items, Access::kKey, Needs::kStore},
    Route{"GET", "/v1/conversations/*/items", handle_items, Access::kKey, Needs::kStore},
    Route{"GET", "/v1/conversations/*/items/*", handle_item, Access::kKey, Needs::kStore},
    Route{"DELETE", "/v1/conversations/*/items/*", handle_delete_item, Access::kKey, Needs::kStore},
    Route{"POST", "/v1/context/count", handle_context_count},
    Route{"POST", "/v1/context/plan", handle_context_plan},
    Route{"POST", "/v1/context/compact", handle_context_compact},
    Route{"GET", "/api/version", handle_ollama_version, Access::kKey, Needs::kNothing},
    Route{"GET", "/api/tags", handle_ollama_tags},
    Route{"GET", "/api/ps", handle_ollama_ps},
    Route{"POST", "/api/show", handle_ollama_show},
    Route{"POST", "/api/chat", handle_ollama_chat},
    Route{"POST", "/api/generate", handle_ollama_generate},
};

/// What the route's stars stand for, if it matches.
std::optional<std::vector<std::string_view>> match(std::string_view pattern,
                                                   std::string_view path) {
  std::vector<std::string_view> captures;
  for (;;) {
    const size_t star = pattern.find('*');
    if (path.substr(0, star) != pattern.substr(0, star)) return std::nullopt;
    if (star == std::string_view::npos) return captures;
    path.remove_prefix(star);
    pattern.remove_prefix(star + 1);
    const bool takes_rest = pattern == "*";
    const std::string_view taken = path.substr(0, takes_rest ? path.size() : path.find('/'));
    if (taken.empty()) return std::nullopt;
    captures.push_back(taken);
    if (takes_rest) return captures;
    path.remove_prefix(taken.size());
  }
}

bool path_matches(const Route& route, std::string_view path) {
  return match(route.path, path).has_value();
}

/// HEAD is GET without a body.
bool method_matches(const Route& route, std::string_view method) {
  return route.method == method || (method == "HEAD" && route.method == "GET");
}

std::string allowed_methods(std::string_view path) {
  std::set<std::string> methods;
  for (const Route& route : routes()) {
    if (!path_matches(route, path)) continue;
    methods.emplace(route.method);
    if (route.method == "GET") methods.emplace("HEAD");
  }
  return fmt::format("{}", fmt::join(methods, ", "));
}

enum class Dialect : uint8_t { kOpenAi, kOllama };  // how errors look

HttpResponse error_response(Dialect dialect, const ApiError& error) {
  return dialect == Dialect::kOllama ? to_ollama_response(error) : to_response(error);
}

Dialect dialect_of(std::string_view path) {
  return path.starts_with("/api/") ? Dialect::kOllama : Dialect::kOpenAi;
}

/// Counts and logs what is answered.
class CountedExchange : public HttpExchange {
 public:
  CountedExchange(Serving& serving, std::shared_ptr<HttpExchange> inner, std::string_view route)
      : serving_(serving), inner_(std::move(inner)), route_(route) {}

  const HttpRequest& request() const override { return inner_->request(); }
  void add_header(std::string name, std::string value) override {
    inner_->add_header(std::move(name), std::move(value));
  }
  void respond(HttpResponse response) override {
    count(response.status);
    inner_->respond(std::move(response));
  }
  void begin_stream(std::string_view content_type, std::string_view heartbeat) override {
    count(200);
    inner_->begin_stream(content_type, heartbeat);
  }
  void write(std::string bytes) override { inner_->write(std::move(bytes)); }
  void end_stream() override { inner_->end_stream(); }
  void on_close(std::function<void()> callback) override { inner_->on_close(std::move(callback)); }
  void post(std::function<void()> work) override { inner_->post(std::move(work)); }
  void post_to_worker(std::function<void()> work) override {
    inner_->post_to_worker(std::move(work));
  }

 private:
  void count(int status) {
    serving_.metrics().count_response(route_, status);
    // 503 is how loading and stopping look.
    const bool ours = status >= 500 && status != 503;
    serving_.log().write(ours ? LogLevel::kWarn : LogLevel::kDebug, "reply",
                         {{"method", request().method},
                          {"route", std::string(route_)},
                          {"status", std::to_string(status)}});
  }

  Serving& serving_;
  const std::shared_ptr<HttpExchange> inner_;
  const std::string_view route_;
};

/// Says that the page's origin may read the answer. Called for allowed origins only.
void add_cors_headers(HttpExchange& exchange) {
  const std::string* origin = exchange.request().header("origin");
  if (origin == nullptr) return;
  exchange.add_header("Access-Control-Allow-Origin", *origin);
  exchange.add_header("Vary", "Origin");
}

/// A browser asks what it may send, without a key.
bool answer_preflight(HttpExchange& exchange) {
  const HttpRequest& request = exchange.request();
  if (request.method != "OPTIONS" || request.header("access-control-request-method") == nullptr) {
    return false;
  }
  exchange.respond(
      {.status = 204,
       .content_type = "text/plain",
       .headers = {{"Access-Control-Allow-Methods", "GET, POST, DELETE"},
                   {"Access-Control-Allow-Headers", "authorization, content-type, x-api-key"},
                   {"Access-Control-Max-Age", "600"}}});
  return true;
}

const Route* find_route(const HttpRequest& request) {
  const auto found = std::ranges::find_if(routes(), [&](const Route& route) {
    return path_matches(route, request.path) && method_matches(route, request.method);
  });
  return found == routes().end() ? nullptr : &*found;
}

ApiError no_route(const HttpRequest& request, std::string& allow) {
  allow = allowed_methods(request.path);
  if (allow.empty()) {
    return not_found(fmt::format("There is nothing at {} here.", formats::printable(request.path)));
  }
  return from_status(405, fmt::format("{} takes {}, not {}.", formats::printable(request.path),
                                      allow, formats::printable(request.method)));
}

}  // namespace

std::span<const Route> routes() {
  return kRoutes;
}

void dispatch(Serving& serving, std::shared_ptr<HttpExchange> inner) {
  const HttpRequest& request = inner->request();
  const Route* route = find_route(request);
  const Dialect dialect = dialect_of(request.path);
  const auto exchange = std::make_shared<CountedExchange>(
      serving, std::move(inner), route != nullptr ? route->path : std::string_view("other"));
  const auto refuse = [&](const ApiError& error) {
    exchange->respond(error_response(dialect, error));
  };
  if (const auto problem = check_host_and_origin(serving.options(), request)) {
    return refuse(from_status(403, *problem));
  }
  if (is_cross_origin(request)) {
    add_cors_headers(*exchange);
    if (answer_preflight(*exchange)) return;
  }
  const std::optional<ApiKeys::Caller> caller = serving.keys().caller_of(request);
  const bool open = route != nullptr && route->access == Access::kOpen;
  if (!caller && !open) return refuse(unauthorized());
  if (route == nullptr) {
    std::string allow;
    HttpResponse response = error_response(dialect, no_route(request, allow));
    if (!allow.empty()) response.headers.emplace_back("Allow", allow);
    return exchange->respond(std::move(response));
  }
  if (route->needs != Needs::kNothing && serving.stopping()) {
    return refuse(unavailable("The server is stopping."));
  }
  if (route->needs == Needs::kModel && !serving.loaded()) {
    return refuse(unavailable("The model is being loaded; try again soon."));
  }
  if (route->needs == Needs::kStore && serving.store() == nullptr) return refuse(no_store());
  Call call{serving, exchange, caller ? caller->tenant : "", caller ? caller->owner : "", {}};
  const auto captures = match(route->path, request.path);
  for (const std::string_view each : *captures) call.captures.push_back(percent_decoded(each));
  route->handle(call);
}

void reply(const Call& call, const Json& json) {
  call.exchange->respond({.body = json.dump()});
}

void reply(const Call& call, const ApiError& error) {
  call.exchange->respond(error_response(dialect_of(call.exchange->request().path), error));
}

std::optional<Json> read_body(const Call& call) {
  ApiResult<Json> body = parse_body(call.exchange->request().body);
  if (body.ok()) return std::move(*body);
  reply(call, body.error());
  return std::nullopt;
}

void check_model(const Serving& serving, Fields& fields) {
  const auto model = fields.text("model", 1024);
  if (model && !serving.answers_to(*model)) {
    fields.fail(model_not_found(formats::printable(*model)));
  }
}

std::string model_name(const Serving& serving, const Json& body) {
  const Json* model = body.find("model");
  return model != nullptr && model->is_string() ? *model->as_string() : serving.model_id();
}

}  // namespace quire::server
