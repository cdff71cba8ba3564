#include "server/ollama_params.h"

#include <fmt/format.h>

namespace quire::server {
namespace {

using formats::Json;

constexpr int64_t kMostTokens = int64_t{1} << 31;
constexpr size_t kMostPromptBytes = 8 << 20;

/// `options`: sampling and lengths.
void read_options(Fields& fields, OllamaRequest& request) {
  const Json* given = fields.object("options");
  if (given == nullptr) return;
  Fields options(*given, "options.");
  engine::GenerateOptions& out = request.params.options;
  read_sampling(options, out.sampling);
  out.stop = read_stops(options);
  if (const auto n = options.integer("num_predict", -2, kMostTokens)) {
    if (*n == 0) options.fail("num_predict", "it must be above 0, or -1 for no limit.");
    if (*n > 0) out.max_tokens = *n;  // -1 and -2: until the window's end
  }
  if (const auto n = options.integer("repeat_last_n", -1, INT32_MAX)) {
    out.sampling.penalty_window = static_cast<int32_t>(*n < 0 ? INT32_MAX : *n);
  }
  request.num_ctx = options.integer("num_ctx", 1, kMostTokens);
  if (options.error()) fields.fail(*options.error());
}

/// `format`: "json", "" or a schema.
ResponseFormat read_format(Fields& fields) {
  ResponseFormat format{.kind = ResponseFormat::Kind::kText, .schema = {}, .param = "format"};
  const Json* given = fields.find("format");
  if (given == nullptr) return format;
  const std::string* word = given->as_string();
  if (word != nullptr && word->empty()) return format;
  if (word != nullptr && *word == "json") {
    format.kind = ResponseFormat::Kind::kJsonObject;
  } else if (given->is_object()) {
    format.kind = ResponseFormat::Kind::kJsonSchema;
    format.schema = *given;
  } else {
    fields.fail("format", "it must be \"json\" or a JSON schema.");
  }
  return format;
}

/// `think`: whether, or how hard, the model reasons first.
Json read_think(Fields& fields) {
  Json kwargs;
  const Json* think = fields.find("think");
  if (think == nullptr) return kwargs;
  if (think->is_bool()) {
    kwargs.set("enable_thinking", *think);
  } else if (const auto effort = fields.choice("think", {"low", "medium", "high"})) {
    kwargs.set("reasoning_effort", *effort);
  }
  return kwargs;
}

void read_common(Fields& fields, const GenerationDefaults& defaults, OllamaRequest& request) {
  request.params.options.sampling = defaults.sampling;
  request.params.options.sampling.seed = defaults.seed;
  request.params.options.max_tokens = defaults.max_output;
  request.params.stream = fields.boolean("stream").value_or(true);
  read_options(fields, request);
  request.chat.format = read_format(fields);
  request.chat.kwargs = read_think(fields);
  fields.refuse({"template", "suffix", "context"}, "it is not supported.");
  if (const Json* images = fields.array("images", 1024)) {
    if (!images->as_array()->empty()) fields.fail("images", "this model reads text only.");
  }
}

/// Ollama's messages hold images beside the content.
void refuse_images(Fields& fields, const Json& message, const std::string& param) {
  const Json* images = message.find("images");
  if (images == nullptr || images->is_null()) return;
  if (images->is_array() && images->as_array()->empty()) return;
  fields.fail(bad_param(param + ".images", fmt::format("Invalid '{}.images': this model reads text "
                                                       "only.",
                                                       param)));
}

Json text_message(std::string_view role, std::string text) {
  Json message;
  message.set("role", role);
  message.set("content", std::move(text));
  return message;
}

}  // namespace

OllamaRequest read_ollama_chat(Fields& fields, const GenerationDefaults& defaults) {
  constexpr size_t kMostMessages = 16384;
  OllamaRequest request;
  read_common(fields, defaults, request);
  request.chat.messages = Json(Json::Array{});
  if (const Json* messages = fields.array("messages", kMostMessages)) {
    const Json::Array& all = *messages->as_array();
    for (size_t i = 0; i < all.size() && fields.ok(); ++i) {
      const std::string param = fmt::format("messages[{}]", i);
      refuse_images(fields, all[i], param);
      request.chat.messages.push_back(read_message(fields, all[i], param));
    }
  }
  request.only_loads = request.chat.messages.as_array()->empty();
  request.chat.tools = read_tools(fields);
  request.chat.tool_choice = read_tool_choice(fields, request.chat.tools);
  return request;
}

OllamaRequest read_ollama_generate(Fields& fields, const GenerationDefaults& defaults) {
  OllamaRequest request;
  read_common(fields, defaults, request);
  request.chat.tool_choice.kind = ToolChoice::Kind::kNone;
  request.raw = fields.boolean("raw").value_or(false);
  request.prompt = fields.text("prompt", kMostPromptBytes).value_or("");
  request.only_loads = request.prompt.empty();
  const auto system = fields.text("system", kMostPromptBytes);
  request.chat.messages = Json(Json::Array{});
  if (system && !system->empty()) request.chat.messages.push_back(text_message("system", *system));
  request.chat.messages.push_back(text_message("user", request.prompt));
  return request;
}

}  // namespace quire::server
