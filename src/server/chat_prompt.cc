#include "server/chat_prompt.h"

#include <fmt/format.h>

#include "server/tools_as_text.h"

namespace quire::server {
namespace {

using formats::Json;

bool has_tools(const ChatParams& chat) {
  return chat.tools.is_array() && chat.tool_choice.kind != ToolChoice::Kind::kNone;
}

/// What closes the reasoning that the prompt has opened; "" if it has not.
std::string open_reasoning(const ChatPrompt& prompt) {
  if (!prompt.format.reasoning_tags) return "";
  const auto& [opens, closes] = *prompt.format.reasoning_tags;
  const size_t opened = prompt.prompt.text.rfind(opens);
  if (opened == std::string::npos) return "";
  return prompt.prompt.text.find(closes, opened) == std::string::npos ? closes : "";
}

engine::ToolChoice engine_choice(const ChatParams& chat) {
  constexpr int32_t kMostCalls = 16;
  engine::ToolChoice choice{.name = std::nullopt,
                            .most_calls = chat.parallel_tool_calls ? kMostCalls : 1};
  if (chat.tool_choice.kind == ToolChoice::Kind::kNamed) {
    choice.name = chat.tool_choice.name;
    choice.most_calls = 1;
  }
  return choice;
}

}  // namespace

ApiError no_template(const engine::Model& model) {
  const std::string& problem = model.template_problem();
  return bad_param("messages",
                   problem.empty()
                       ? "This model has no chat template: use /v1/completions, or start the "
                         "server with --chat-template FILE."
                       : fmt::format("This model's chat template cannot be used: {}", problem));
}

context::ChatRequest chat_request(const engine::Model& model, const ChatParams& chat) {
  context::ChatRequest request;
  request.messages = chat.messages;
  if (has_tools(chat)) request.tools = chat.tools;
  request.kwargs = chat.kwargs;
  const auto special = model.tokenizer().special_tokens();
  request.special_tokens.assign(special.begin(), special.end());
  request.now = context::local_wall_clock();
  if (!model.chat_template()->traits().tools) {
    request.messages = with_tools_as_text(request.messages, request.tools);
    request.tools = Json();
  }
  return request;
}

ApiResult<ChatPrompt> render_request(const engine::Model& model, const ChatParams& chat,
                                     const context::ChatRequest& request) {
  const context::ChatTemplate& chat_template = *model.chat_template();
  const context::TemplateTraits& traits = chat_template.traits();
  Result<engine::Prompt> prompt = engine::chat_prompt(model.tokenizer(), chat_template, request);
  if (!prompt.ok()) return bad_param("messages", prompt.error().message);
  ChatPrompt out{*std::move(prompt), traits.answer_format()};
  if (has_tools(chat) && !traits.tools) out.format.tool_calls = context::ToolCallFormat::kTagged;
  // Without tools, what looks like a call is the answer that was asked for.
  if (!has_tools(chat)) out.format.tool_calls = context::ToolCallFormat::kNone;
  return out;
}

ApiResult<ChatPrompt> render_chat(const engine::Model& model, const ChatParams& chat) {
  if (model.chat_template() == nullptr) return no_template(model);
  return render_request(model, chat, chat_request(model, chat));
}

ApiResult<std::unique_ptr<engine::TokenConstraint>> make_constraint(const Backend& backend,
                                                                    const ChatParams& chat,
                                                                    const ChatPrompt& prompt) {
  using Made = Result<std::unique_ptr<engine::TokenConstraint>>;
  const ToolChoice::Kind choice = chat.tool_choice.kind;
  const bool calls = choice == ToolChoice::Kind::kRequired || choice == ToolChoice::Kind::kNamed;
  const bool text = chat.format.kind == ResponseFormat::Kind::kText;
  if (text && !calls) return std::unique_ptr<engine::TokenConstraint>();
  const std::string param = calls ? "tool_choice" : chat.format.param;
  if (backend.constraints == nullptr) {
    return bad_param(param, "This model's vocabulary cannot be held to a format.");
  }
  const engine::AnswerStart start{.reasoning_closer = open_reasoning(prompt)};
  Made made =
      calls ? backend.constraints->tool_calls(prompt.format.tool_calls, backend.template_source,
                                              chat.tools, engine_choice(chat), start)
      : chat.format.kind == ResponseFormat::Kind::kJsonObject
          ? backend.constraints->any_object(start)
          : backend.constraints->schema(chat.format.schema, start);
  if (!made.ok()) return bad_param(param, made.error().message);
  return *std::move(made);
}

std::optional<ApiError> check_window(const Serving& serving, const Backend& backend,
                                     int64_t prompt_tokens, std::optional<int64_t> max_tokens,
                                     const std::string& param) {
  const int64_t window = backend.engine.window().tokens;
  if (prompt_tokens >= window) {
    return context_exceeded(window, prompt_tokens, std::nullopt, param);
  }
  if (max_tokens && prompt_tokens + *max_tokens > window) {
    return context_exceeded(window, prompt_tokens, max_tokens, param);
  }
  const std::optional<int64_t> most = serving.options().max_input;
  if (most && prompt_tokens > *most) {
    ApiError error = context_exceeded(*most, prompt_tokens, std::nullopt, param);
    error.message += fmt::format(" (This server takes at most {} tokens of input.)", *most);
    return error;
  }
  if (prompt_tokens == 0) return bad_param(param, "The prompt has no tokens.");
  return std::nullopt;
}

}  // namespace quire::server
