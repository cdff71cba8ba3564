#include "context/window/window_testing.h"

#include <algorithm>
#include <filesystem>

#include "base/file_system.h"
#include "context/tokenizer_testing.h"

namespace quire::context::window {
namespace {

using formats::Json;

constexpr const char* kChatml =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' }}"
    "{% if message.reasoning_content %}{{ '<think>' + message.reasoning_content + '</think>' }}"
    "{% endif %}{{ message['content'] }}"
    "{% for call in message.tool_calls or [] %}{{ '<tool_call>' + (call.function | tojson) + "
    "'</tool_call>' }}{% endfor %}{{ '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

constexpr const char* kAlternating =
    "{{ bos_token }}{% if messages[0].role == 'system' %}{% set system = messages[0].content + "
    "'\\n\\n' %}{% set rest = messages[1:] %}{% else %}{% set system = '' %}{% set rest = messages "
    "%}{% endif %}{% for message in rest %}{% if (message.role == 'user') != (loop.index0 % 2 == "
    "0) "
    "%}{{ raise_exception('roles must alternate') }}{% endif %}{% if message.role == 'user' %}"
    "{{ '[INST] ' + (system if loop.first else '') + message.content | trim + ' [/INST]' }}"
    "{% else %}{{ message.content | trim + eos_token }}{% endif %}{% endfor %}";

constexpr const char* kSystemless =
    "{{ bos_token }}{% for message in messages %}{% if message.role == 'system' %}"
    "{{ raise_exception('no system role') }}{% endif %}{{ '<start_of_turn>' + message.role + '\\n' "
    "+ "
    "message.content | trim + '<end_of_turn>\\n' }}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<start_of_turn>model\\n' }}{% endif %}";

std::vector<NamedTemplate> shared_templates() {
  const std::filesystem::path folder = QUIRE_SOURCE_DIR "/../shared/templates";
  std::vector<NamedTemplate> found;
  if (!std::filesystem::exists(folder)) return found;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    const Json json = Json::parse(*read_file(entry.path().string()), "template").value();
    NamedTemplate named;
    named.name = entry.path().stem().string();
    named.source = *json.find("template")->as_string();
    for (const char* key : {"bos_token", "eos_token", "pad_token"}) {
      const Json* text = json.find(key);
      if (text != nullptr && text->is_string()) {
        named.special_tokens.emplace_back(key, *text->as_string());
      }
    }
    found.push_back(std::move(named));
  }
  std::ranges::sort(found, {}, &NamedTemplate::name);
  return found;
}

class Writer {
 public:
  Writer(std::mt19937& random, const ChatTemplate& chat_template)
      : random_(random), traits_(chat_template.traits()) {}

  WindowRequest write() {
    if (one_in(4) || traits_.system_role) add("system", text(60) + " SENTINEL-9f3a");
    if (one_in(5)) examples();
    const int turns = number(0, 10);
    for (int i = 0; i < turns; ++i) turn();
    add("user", text(one_in(8) ? 900 : 80));
    if (traits_.tool_calls && one_in(4)) steps();
    WindowRequest request = request_of(std::move(messages_), Policy::kReject);
    if (traits_.tools) add_tools(request);
    pin_some(request);
    if (one_in(4)) add_chunks(request);
    return request;
  }

 private:
  int number(int low, int high) {
    return low + static_cast<int>(random_() % static_cast<uint32_t>(high - low + 1));
  }
  bool one_in(int n) { return number(1, n) == 1; }

  std::string text(int about) {
    const auto index = messages_.size();
    std::string out = "begin" + std::to_string(index);
    const int words = number(1, std::max(about / 4, 2));
    for (int i = 0; i < words; ++i) {
      if (i % 9 == 8) out += ".";
      out += one_in(12) ? " 缓存" : one_in(9) ? "\nline" : " w" + std::to_string(number(0, 99));
    }
    return out + " end" + std::to_string(index);
  }

  void add(const std::string& role, const std::string& content) {
    messages_.push_back(message(role, content));
  }

  void examples() {
    const int count = number(1, 3);
    for (int i = 0; i < 2 * count; ++i) {
      add(i % 2 == 0 ? "user" : "assistant", text(50));
      Json context;
      context.set("kind", "fewshot");
      messages_.back().set("x_context", std::move(context));
    }
  }

  void call() {
    // Mistral's template wants ids of nine letters and digits.
    const std::string id = "call" + std::to_string(10000 + static_cast<int>(messages_.size()));
    const std::string tool = one_in(2) ? "read_file" : "search";
    Json caller = tool_call(id, tool, "a" + std::to_string(number(0, 3)));
    if (one_in(3)) caller.set("reasoning_content", text(60));
    messages_.push_back(std::move(caller));
    messages_.push_back(tool_result(id, tool, text(one_in(3) ? 900 : 150)));
  }

  void steps() {
    const int count = number(1, 4);
    for (int i = 0; i < count; ++i) call();
  }

  void turn() {
    add("user", text(70));
    if (traits_.tool_calls && one_in(3)) steps();
    add("assistant", text(120));
  }

  void add_tools(WindowRequest& request) {
    request.chat.tools =
        Json::parse(
            R"([{"type":"function","function":{"name":"read_file","description":"Reads",
                             "parameters":{"type":"object","properties":{"path":{"type":"string",
                             "description":"where"}},"required":["path"]}}},{"type":"function",
                             "function":{"name":"search","description":"Finds","parameters":{"type":
                             "object","properties":{"path":{"type":"string","description":"where"}},
                             "required":["path"]}}}])",
            "tools")
            .value();
  }

  void pin_some(WindowRequest& request) {
    if (!one_in(5)) return;
    const auto index =
        static_cast<size_t>(number(0, static_cast<int>(request.contexts.size()) - 1));
    request.contexts[index].pin = true;
  }

  void add_chunks(WindowRequest& request) {
    const int count = number(1, 5);
    for (int i = 0; i < count; ++i) {
      request.chunks.push_back({.id = std::to_string(i),
                                .source = "doc" + std::to_string(i),
                                .text = text(200),
                                .score = number(0, 9) / 10.0,
                                .message = std::nullopt});
    }
  }

  std::mt19937& random_;
  const TemplateTraits& traits_;
  Json::Array messages_;
};

}  // namespace

const std::vector<NamedTemplate>& all_templates() {
  static const std::vector<NamedTemplate> templates = [] {
    std::vector<NamedTemplate> all = {
        {"chatml", kChatml, {{"eos_token", "<|im_end|>"}}},
        {"alternating", kAlternating, {{"bos_token", "<s>"}, {"eos_token", "</s>"}}},
        {"systemless", kSystemless, {{"bos_token", "<bos>"}}}};
    for (NamedTemplate& shared : shared_templates()) all.push_back(std::move(shared));
    return all;
  }();
  return templates;
}

const NamedTemplate& named_template(const std::string& name) {
  return *std::ranges::find(all_templates(), name, &NamedTemplate::name);
}

ChatTemplate parse_template(const NamedTemplate& named) {
  return ChatTemplate::parse(named.source, named.special_tokens).value();
}

const Tokenizer& small_tokenizer() {
  static const Tokenizer tokenizer = *tokenizer_of_folder(QUIRE_TEST_DATA "/tiny/qwen3");
  return tokenizer;
}

Json tool_call(const std::string& id, const std::string& tool, const std::string& argument) {
  Json arguments, function, call, json;
  arguments.set("path", argument);
  function.set("name", tool);
  function.set("arguments", std::move(arguments));
  call.set("id", id);
  call.set("type", "function");
  call.set("function", std::move(function));
  json.set("role", "assistant");
  json.set("content", Json());
  json.set("tool_calls", Json(Json::Array{std::move(call)}));
  return json;
}

Json tool_result(const std::string& id, const std::string& tool, const std::string& text) {
  Json json = message("tool", text);
  json.set("tool_call_id", id);
  json.set("name", tool);
  return json;
}

WindowRequest request_of(Json::Array messages, Policy policy) {
  WindowRequest request;
  request.chat.messages = Json(std::move(messages));
  request.contexts = take_contexts(request.chat.messages).value();
  request.policy.policy = policy;
  return request;
}

WindowRequest random_request(std::mt19937& random, const ChatTemplate& chat_template) {
  WindowRequest request = Writer(random, chat_template).write();
  // One template takes its tools as a text of its own.
  request.chat.kwargs.set("functions", "[]");
  request.chat.kwargs.set("datetime", "2026-01-01");
  return request;
}

}  // namespace quire::context::window
