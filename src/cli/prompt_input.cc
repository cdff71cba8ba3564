#include "cli/prompt_input.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/utf8.h"
#include "context/window/request.h"

namespace quire::cli {
namespace {

using formats::Json;
using Kind = PromptOptions::Piece::Kind;
using Rendering = PromptOptions::Rendering;

Error usage(std::string message) {
  return {ErrorCode::kUsage, std::move(message)};
}

Result<std::string> read_stdin(const Environment& env, Output& output) {
  if (::isatty(::fileno(env.in)) != 0) {
    output.remark("type the prompt; Ctrl-D on an empty line ends it");
  }
  return read_all(env);
}

Result<std::string> read_piece(const Environment& env, const PromptOptions::Piece& piece,
                               Output& output) {
  if (piece.kind == Kind::kText) return piece.content;
  if (piece.content == "-") return read_stdin(env, output);
  if (env.files.is_directory(piece.content)) {
    return Error{ErrorCode::kNotFound, fmt::format("-f {} is a folder, not a file", piece.content)};
  }
  return env.files.read(piece.content, kMaxPromptBytes);
}

/// The prefix, or "" without --prefix-file.
Result<std::string> read_prefix(const Environment& env, const PromptOptions& options) {
  if (!options.prefix_file) return std::string();
  return env.files.read(*options.prefix_file, kMaxPromptBytes);
}

Json message(std::string_view role, std::string_view content) {
  Json json;
  json.set("role", role);
  // JSON holds no ill-formed UTF-8; templates render text.
  json.set("content", utf8_sanitized(content));
  return json;
}

/// Puts `prefix` at the head of the first user message.
Result<void> add_prefix(Json& messages, const std::string& prefix) {
  for (Json& entry : *messages.as_array()) {
    const Json* role = entry.find("role");
    if (role == nullptr || role->as_string() == nullptr || *role->as_string() != "user") continue;
    const Json* content = entry.find("content");
    if (content == nullptr || content->as_string() == nullptr) {
      return usage("--prefix-file needs a first user message whose content is text");
    }
    const std::array pieces = {utf8_sanitized(prefix), *content->as_string()};
    entry.set("content", join_by_blank_line(pieces));
    return {};
  }
  return usage("--prefix-file needs a user message, and --messages holds none");
}

Result<context::ChatRequest> parse_messages(const Json& document, const std::string& file) {
  context::ChatRequest request;
  if (document.is_array()) {
    request.messages = document;
    return request;
  }
  const Json* messages = document.find("messages");
  if (messages == nullptr || !messages->is_array()) {
    return usage(
        fmt::format("{} holds neither an array of messages nor an object with the field "
                    "\"messages\"",
                    file));
  }
  request.messages = *messages;
  if (const Json* tools = document.find("tools")) request.tools = *tools;
  if (const Json* documents = document.find("documents")) request.documents = *documents;
  if (const Json* kwargs = document.find("chat_template_kwargs")) request.kwargs = *kwargs;
  if (!request.kwargs.is_null() && !request.kwargs.is_object()) {
    return usage(fmt::format("{}: chat_template_kwargs is no object", file));
  }
  if (!request.tools.is_null() && !request.tools.is_array()) {
    return usage(fmt::format("{}: tools is no array", file));
  }
  if (const Json* add = document.find("add_generation_prompt")) {
    if (!add->is_bool()) {
      return usage(fmt::format("{}: add_generation_prompt is neither true nor false", file));
    }
    if (!*add->as_bool()) request.generation_prompt = context::GenerationPrompt::kOmit;
  }
  return request;
}

/// Every entry of "messages" is an object with a role; the template cannot say so as clearly.
Result<void> check_messages(const Json& messages, const std::string& file) {
  int64_t index = 0;
  for (const Json& entry : *messages.as_array()) {
    const Json* role = entry.find("role");
    if (role == nullptr || !role->is_string()) {
      return usage(fmt::format("{}: message {} is no object with a \"role\"", file, index));
    }
    ++index;
  }
  return {};
}

/// The conversation that a document as of --messages holds, with the prefix at its head.
Result<context::ChatRequest> request_of_document(const Json& document, const std::string& name,
                                                 const std::string& prefix) {
  QUIRE_TRY(context::ChatRequest request, parse_messages(document, name));
  QUIRE_TRY_VOID(check_messages(request.messages, name));
  if (!prefix.empty()) QUIRE_TRY_VOID(add_prefix(request.messages, prefix));
  return request;
}

context::ChatRequest request_of_text(const PromptOptions& options, const std::string& text) {
  context::ChatRequest request;
  if (options.system) request.messages.push_back(message("system", *options.system));
  request.messages.push_back(message("user", text));
  return request;
}

Result<engine::Prompt> render(const PromptMaker& maker, const PromptOptions& options,
                              context::ChatRequest request) {
  add_template_kwargs(options, request.kwargs);
  request.now = context::local_wall_clock();
  const auto special = maker.tokenizer.special_tokens();
  request.special_tokens = {special.begin(), special.end()};
  // What it says of the window is for the planner only.
  context::ChatRequest bare = request;
  QUIRE_TRY_VOID(context::window::take_contexts(bare.messages));
  QUIRE_TRY(engine::Prompt prompt,
            engine::chat_prompt(maker.tokenizer, *maker.chat_template, bare));
  prompt.request = std::move(request);
  return prompt;
}

engine::Prompt raw_prompt_of(const PromptMaker& maker, const PromptOptions& options,
                             const std::string& text) {
  const auto raw =
      options.rendering == Rendering::kPlain ? engine::RawText::kPlain : engine::RawText::kParse;
  const auto special =
      options.no_special ? engine::AddSpecial::kNone : engine::AddSpecial::kAsModel;
  return engine::raw_prompt(maker.tokenizer, text, raw, special);
}

Result<void> check_combination(const PromptOptions& options) {
  if (options.messages_file && !options.pieces.empty()) {
    return usage("--messages already holds the prompt; leave out -p and -f");
  }
  if (options.messages_file && options.system) {
    return usage(
        "--messages and --system exclude each other; put the system message into the file");
  }
  if (options.raw() && options.messages_file) {
    return usage("--messages needs the chat template; leave out --raw and --plain");
  }
  if (options.raw() && options.system) {
    return usage("--system needs the chat template; leave out --raw and --plain");
  }
  if (options.raw() && !options.template_kwargs.empty()) {
    return usage("--template-kwargs needs the chat template; leave out --raw and --plain");
  }
  return {};
}

/// What can only be meant for a template.
bool wants_template(const PromptOptions& options) {
  return options.rendering == Rendering::kTemplate || options.system || options.messages_file ||
         !options.template_kwargs.empty();
}

Result<engine::Prompt> read_raw_prompt(const Environment& env, const PromptMaker& maker,
                                       const PromptOptions& options, Output& output) {
  QUIRE_TRY(const std::string text, read_prompt_text(env, options, output));
  return raw_prompt_of(maker, options, text);
}

void remark_on_missing_template(const PromptMaker& maker, Output& output) {
  output.remark(maker.template_problem.empty()
                    ? std::string("this model has no chat template: continuing the text")
                    : fmt::format("the chat template cannot be used ({}): continuing the text",
                                  maker.template_problem));
}

}  // namespace

std::string join_by_blank_line(std::span<const std::string> pieces) {
  std::string joined;
  for (const std::string& piece : pieces) {
    if (piece.empty()) continue;
    while (!joined.empty() && !joined.ends_with("\n\n")) joined += '\n';
    joined += piece;
  }
  return joined;
}

Result<std::string> read_prompt_text(const Environment& env, const PromptOptions& options,
                                     Output& output) {
  std::vector<std::string> pieces;
  QUIRE_TRY(std::string prefix, read_prefix(env, options));
  pieces.push_back(std::move(prefix));
  for (const PromptOptions::Piece& piece : options.pieces) {
    QUIRE_TRY(std::string text, read_piece(env, piece, output));
    pieces.push_back(std::move(text));
  }
  if (options.pieces.empty()) {
    QUIRE_TRY(std::string text, read_stdin(env, output));
    pieces.push_back(std::move(text));
  }
  return join_by_blank_line(pieces);
}

void add_template_kwargs(const PromptOptions& options, Json& kwargs) {
  for (const auto& [name, value] : options.template_kwargs) {
    auto parsed = Json::parse(value, name);
    kwargs.set(name, parsed.ok() ? *std::move(parsed) : Json(utf8_sanitized(value)));
  }
}

Result<context::ChatRequest> read_chat_request(const Environment& env, const PromptOptions& options,
                                               Output& output) {
  context::ChatRequest request;
  if (options.messages_file) {
    const std::string& file = *options.messages_file;
    QUIRE_TRY(const std::string text,
              file == "-" ? read_stdin(env, output) : env.files.read(file, kMaxPromptBytes));
    QUIRE_TRY(const Json document, Json::parse(text, file));
    QUIRE_TRY(const std::string prefix, read_prefix(env, options));
    QUIRE_TRY(request, request_of_document(document, file, prefix));
  } else {
    QUIRE_TRY(const std::string text, read_prompt_text(env, options, output));
    request = request_of_text(options, text);
  }
  return request;
}

Error needs_template(std::string_view what, std::string_view template_problem) {
  if (!template_problem.empty()) {
    return usage(
        fmt::format("{} needs a chat template, and this model's cannot be used ({}); give "
                    "one with --chat-template FILE",
                    what, template_problem));
  }
  return usage(fmt::format(
      "{} needs a chat template, and this model has none; give one with --chat-template FILE",
      what));
}

Result<engine::Prompt> read_prompt(const Environment& env, const PromptMaker& maker,
                                   const PromptOptions& options, DefaultRendering rendering,
                                   Output& output) {
  QUIRE_TRY_VOID(check_combination(options));
  const bool wanted = wants_template(options);
  const bool by_default = !options.raw() && rendering == DefaultRendering::kTemplate;
  if (!wanted && (!by_default || maker.chat_template == nullptr)) {
    if (by_default) remark_on_missing_template(maker, output);
    return read_raw_prompt(env, maker, options, output);
  }
  if (maker.chat_template == nullptr) {
    const std::string_view what = options.messages_file                       ? "--messages"
                                  : options.system                            ? "--system"
                                  : options.rendering == Rendering::kTemplate ? "--template"
                                                                              : "--template-kwargs";
    return needs_template(what, maker.template_problem);
  }
  if (options.no_special) {
    return usage("--no-special needs --raw or --plain: a chat template prints its own BOS");
  }
  QUIRE_TRY(context::ChatRequest request, read_chat_request(env, options, output));
  QUIRE_TRY(engine::Prompt prompt, render(maker, options, std::move(request)));
  for (const std::string& note : prompt.notes) output.remark(note);
  return prompt;
}

Result<engine::Prompt> make_prompt(const PromptMaker& maker, const PromptOptions& options,
                                   const std::string& prefix, const GivenPrompt& given) {
  const bool is_text = given.content.is_string();
  if (!is_text && options.raw()) {
    return usage(given.name +
                 " holds messages, which need the chat template; leave out --raw and "
                 "--plain");
  }
  if (!is_text && options.system) {
    return usage(given.name + " holds messages; put the system message there, not into --system");
  }
  if (is_text && (options.raw() || maker.chat_template == nullptr) && !wants_template(options)) {
    const std::array pieces = {prefix, *given.content.as_string()};
    return raw_prompt_of(maker, options, join_by_blank_line(pieces));
  }
  if (maker.chat_template == nullptr) return needs_template(given.name, maker.template_problem);
  if (is_text) {
    const std::array pieces = {utf8_sanitized(prefix), *given.content.as_string()};
    return render(maker, options, request_of_text(options, join_by_blank_line(pieces)));
  }
  QUIRE_TRY(context::ChatRequest request, request_of_document(given.content, given.name, prefix));
  return render(maker, options, std::move(request));
}

}  // namespace quire::cli
