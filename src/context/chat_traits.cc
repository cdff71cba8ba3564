#include "context/chat_traits.h"

#include <algorithm>
#include <initializer_list>
#include <optional>

#include "context/chat_renderer.h"

namespace quire::context {
namespace {

using formats::Json;

// Words that no template contains. The date is any; a probe only asks whether it is used.
constexpr const char* kSystemText = "qzsystem";
constexpr const char* kUserText = "qzuser";
constexpr const char* kAnswerText = "qzanswer";
constexpr const char* kNextUserText = "qznext";
constexpr const char* kToolName = "qztool";
constexpr const char* kArgumentName = "qzkey";
constexpr const char* kArgumentValue = "qzvalue";
constexpr const char* kResultText = "qzresult";
constexpr const char* kBosText = "<qzbos>";

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

Json object(std::initializer_list<std::pair<const char*, Json>> members) {
  Json out{Json::Object{}};
  for (const auto& [key, value] : members) out.set(key, value);
  return out;
}

Json message(const char* role, Json content) {
  return object({{"role", role}, {"content", std::move(content)}});
}

Json text_parts(const char* text) {
  return Json(Json::Array{object({{"type", "text"}, {"text", text}})});
}

Json probe_tools() {
  const Json key = object({{"type", "string"}, {"description", "a word"}});
  const Json parameters = object({{"type", "object"},
                                  {"properties", object({{kArgumentName, key}})},
                                  {"required", Json(Json::Array{Json(kArgumentName)})}});
  const Json function =
      object({{"name", kToolName}, {"description", "a tool"}, {"parameters", parameters}});
  return Json(Json::Array{object({{"type", "function"}, {"function", function}})});
}

Json call_message() {
  // Mistral's templates insist on ids of nine letters or digits.
  const Json function =
      object({{"name", kToolName}, {"arguments", object({{kArgumentName, kArgumentValue}})}});
  const Json call = object({{"id", "call00001"}, {"type", "function"}, {"function", function}});
  return object(
      {{"role", "assistant"}, {"content", Json()}, {"tool_calls", Json(Json::Array{call})}});
}

Json result_message() {
  return object({{"role", "tool"},
                 {"tool_call_id", "call00001"},
                 {"name", kToolName},
                 {"content", kResultText}});
}

class Prober {
 public:
  Prober(const jinja::Template& compiled, std::string_view source,
         const std::vector<std::pair<std::string, std::string>>& special_tokens)
      : compiled_(compiled), source_(source), special_tokens_(special_tokens) {}

  TemplateProfile run() {
    choose_content_form();
    find_system_role();
    find_plain_traits();
    find_after_answer();
    find_tools();
    find_tool_call_form();
    find_reasoning_tags();
    return std::move(profile_);
  }

 private:
  struct Options {
    GenerationPrompt generation_prompt = GenerationPrompt::kOmit;
    bool with_tools = false;
    bool with_probe_bos = false;
  };

  std::optional<RenderedPrompt> render(std::vector<Json> messages, const Adapters& adapters,
                                       const Options& options) const {
    ChatRequest request;
    request.messages = Json(Json::Array(std::move(messages)));
    if (options.with_tools) request.tools = probe_tools();
    request.generation_prompt = options.generation_prompt;
    request.special_tokens = special_tokens_;
    if (options.with_probe_bos) {
      auto& tokens = request.special_tokens;
      tokens.erase(std::remove_if(tokens.begin(), tokens.end(),
                                  [](const auto& token) { return token.first == "bos_token"; }),
                   tokens.end());
      tokens.emplace_back("bos_token", kBosText);
    }
    const jinja::Limits limits{.max_steps = 300'000, .max_output_bytes = size_t{1} << 20};
    auto prompt =
        render_conversation(compiled_, request, adapt(request.messages, adapters), limits);
    if (!prompt.ok()) return std::nullopt;
    return *std::move(prompt);
  }

  std::optional<RenderedPrompt> render(std::vector<Json> messages) const {
    return render(std::move(messages), profile_.adapters, plain_);
  }

  /// Strings unless only typed parts work.
  void choose_content_form() {
    Adapters strings, parts;
    parts.content = Adapters::Content::kParts;
    const auto shows_text = [](const std::optional<RenderedPrompt>& prompt) {
      return prompt && contains(prompt->text, kUserText) && !contains(prompt->text, "{'");
    };
    // Templates made for tool use alone fail without tools.
    for (const bool with_tools : {false, true}) {
      plain_.with_tools = with_tools;
      if (shows_text(render({message("user", kUserText)}, strings, plain_))) return;
      if (shows_text(render({message("user", text_parts(kUserText))}, parts, plain_))) {
        profile_.adapters.content = Adapters::Content::kParts;
        return;
      }
    }
    plain_.with_tools = false;
  }

  void find_system_role() {
    const auto prompt = render({message("system", kSystemText), message("user", kUserText)});
    profile_.traits.system_role = prompt && contains(prompt->text, kSystemText);
    if (profile_.traits.system_role) return;
    // Folding helps only a template that works without a system message.
    if (render({message("user", kUserText)})) {
      profile_.adapters.system = Adapters::System::kFoldIntoUser;
    }
  }

  void find_plain_traits() {
    const auto plain = render({message("user", kUserText)});
    Options generating = plain_;
    generating.generation_prompt = GenerationPrompt::kAdd;
    const auto prompted = render({message("user", kUserText)}, profile_.adapters, generating);
    if (plain) profile_.traits.uses_clock = plain->used_clock;
    if (prompted) profile_.traits.uses_clock = prompted->used_clock;
    profile_.traits.generation_prompt = plain && prompted && plain->text != prompted->text;
    Options marked = generating;
    marked.with_probe_bos = true;
    const auto with_bos = render({message("user", kUserText)}, profile_.adapters, marked);
    profile_.traits.prints_bos = (with_bos && with_bos->text.rfind(kBosText, 0) == 0) ||
                                 (prompted && starts_with_bos(*prompted));
  }

  bool starts_with_bos(const RenderedPrompt& prompt) const {
    return std::any_of(special_tokens_.begin(), special_tokens_.end(), [&](const auto& token) {
      return token.first == "bos_token" && !token.second.empty() &&
             prompt.text.rfind(token.second, 0) == 0;
    });
  }

  void find_after_answer() {
    const Json user = message("user", kUserText);
    const Json answer = message("assistant", kAnswerText);
    const auto within = render({user, answer, message("user", kNextUserText)});
    const auto at_end = render({user, answer});
    for (const auto& prompt : {within, at_end}) {
      if (!prompt) continue;
      const size_t answer_at = prompt->text.find(kAnswerText);
      if (answer_at == std::string::npos) continue;
      const size_t begin = answer_at + std::string_view(kAnswerText).size();
      const size_t end = std::min(prompt->text.find(kNextUserText), prompt->text.size());
      add_after_answer(prompt->text.substr(begin, end - begin));
    }
  }

  void add_after_answer(std::string text) {
    auto& texts = profile_.traits.after_answer;
    if (text.empty() || std::find(texts.begin(), texts.end(), text) != texts.end()) return;
    texts.push_back(std::move(text));
    std::stable_sort(texts.begin(), texts.end(),
                     [](const auto& a, const auto& b) { return a.size() > b.size(); });
  }

  void find_tools() {
    const auto prompt =
        render({message("user", kUserText)}, profile_.adapters, {.with_tools = true});
    profile_.traits.tools = prompt && contains(prompt->text, kToolName);
  }

  /// Whether a rendered tool call is one that a model could have been trained on.
  bool is_sensible(const std::optional<RenderedPrompt>& prompt) const {
    if (!prompt || !contains(prompt->text, kResultText)) return false;
    // The tool's name stands in its definition too: look behind the user's message.
    const size_t conversation = prompt->text.rfind(kUserText);
    const std::string_view text =
        std::string_view(prompt->text).substr(std::min(conversation, prompt->text.size()));
    const bool python_dict = contains(text, "{'") && !contains(source_, "{'qz");
    const bool escaped_twice = contains(text, "\\\"qz");
    const bool printed_none = contains(text, "None") && !contains(source_, "None");
    return contains(text, kToolName) && contains(text, kArgumentValue) && !python_dict &&
           !escaped_twice && !printed_none;
  }

  /// Objects before strings; null where the template asks for none, else "" first.
  void find_tool_call_form() {
    using NullContent = Adapters::NullContent;
    const bool tests_none = contains(source_, "is none") || contains(source_, "is not none");
    const NullContent with_none[] = {NullContent::kNull, NullContent::kAbsent,
                                     NullContent::kEmptyString};
    const NullContent without_none[] = {NullContent::kEmptyString, NullContent::kAbsent,
                                        NullContent::kNull};
    for (const auto arguments : {Adapters::Arguments::kObject, Adapters::Arguments::kString}) {
      for (const NullContent null_content : tests_none ? with_none : without_none) {
        Adapters candidate = profile_.adapters;
        candidate.arguments = arguments;
        candidate.null_content = null_content;
        const auto prompt = render({message("user", kUserText), call_message(), result_message()},
                                   candidate, {.with_tools = true});
        if (!is_sensible(prompt)) continue;
        profile_.adapters = candidate;
        profile_.traits.tool_calls = true;
        find_tool_call_format(call_text(prompt->text));
        return;
      }
    }
    find_tool_call_format("");
  }

  /// What stands between the user's message and the tool's result: the call.
  static std::string_view call_text(std::string_view prompt) {
    const size_t begin = std::min(prompt.rfind(kUserText), prompt.size());
    const std::string_view text = prompt.substr(begin);
    return text.substr(0, text.find(kResultText));
  }

  void find_tool_call_format(std::string_view call) {
    profile_.traits.tool_call_format = context::find_tool_call_format(call, kToolName, source_);
  }

  void find_reasoning_tags() {
    static constexpr std::pair<const char*, const char*> kKnown[] = {
        {"<think>", "</think>"},
        {"[THINK]", "[/THINK]"},
        {"<seed:think>", "</seed:think>"},
        {"<reasoning>", "</reasoning>"},
        {"<|START_THINKING|>", "<|END_THINKING|>"},
        {"<|channel|>analysis<|message|>", "<|end|>"},
    };
    for (const auto& [open, close] : kKnown) {
      // Some templates name only the closing tag; <|end|> closes more than reasoning.
      const bool closes = contains(source_, close) && std::string_view(close) != "<|end|>";
      if (!contains(source_, open) && !closes) continue;
      profile_.traits.reasoning_tags = {open, close};
      return;
    }
  }

  const jinja::Template& compiled_;
  std::string_view source_;
  const std::vector<std::pair<std::string, std::string>>& special_tokens_;
  Options plain_;
  TemplateProfile profile_;
};

}  // namespace

TemplateProfile profile_template(
    const jinja::Template& compiled, std::string_view source,
    const std::vector<std::pair<std::string, std::string>>& special_tokens) {
  return Prober(compiled, source, special_tokens).run();
}

}  // namespace quire::context
