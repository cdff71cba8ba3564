// GET /v1/models and /v1/models/{id}.
#include "server/routes.h"

namespace quire::server {
namespace {

using formats::Json;

Json model_json(Serving& serving, const std::string& name) {
  const int64_t window = serving.backend()->engine.window().tokens;
  const ServingOptions& options = serving.options();
  Json json;
  json.set("id", name);
  json.set("object", "model");
  json.set("created", serving.start_time());
  json.set("owned_by", "quire");
  json.set("root", serving.model_id());
  json.set("max_model_len", window);
  json.set("max_input_tokens", options.max_input.value_or(window - 1));
  json.set("max_output_tokens", options.max_output.value_or(window - 1));
  return json;
}

}  // namespace

void handle_models(const Call& call) {
  Json data(Json::Array{});
  for (const std::string& name : call.serving.options().names) {
    data.push_back(model_json(call.serving, name));
  }
  Json json;
  json.set("object", "list");
  json.set("data", std::move(data));
  reply(call, json);
}

void handle_model(const Call& call) {
  const std::string& name = call.captures.front();
  if (!call.serving.answers_to(name)) return reply(call, model_not_found(name));
  reply(call, model_json(call.serving, name));
}

}  // namespace quire::server
