// Real chat templates against what Hugging Face renders for them, byte for byte.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "context/answer_parser.h"
#include "context/chat_template.h"

namespace quire::context {
namespace {

using formats::Json;

const std::filesystem::path kFolder = QUIRE_SOURCE_DIR "/../shared/templates";

std::vector<std::filesystem::path> reference_files() {
  std::vector<std::filesystem::path> files;
  if (!std::filesystem::exists(kFolder)) return files;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

Json load(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream content;
  content << file.rdbuf();
  return Json::parse(content.str(), path.string()).value();
}

/// "2024-07-26T12:34:56"
std::chrono::sys_seconds parse_date(const std::string& text) {
  int y = 0, mo = 0, d = 0, h = 0, mi = 0, s = 0;
  std::sscanf(text.c_str(), "%d-%d-%dT%d:%d:%d", &y, &mo, &d, &h, &mi, &s);
  return std::chrono::sys_days(std::chrono::year(y) / mo / d) + std::chrono::hours(h) +
         std::chrono::minutes(mi) + std::chrono::seconds(s);
}

std::vector<std::pair<std::string, std::string>> special_tokens(const Json& reference) {
  std::vector<std::pair<std::string, std::string>> tokens;
  for (const char* name : {"bos_token", "eos_token", "pad_token"}) {
    const Json* text = reference.find(name);
    if (text != nullptr && text->is_string()) tokens.emplace_back(name, *text->as_string());
  }
  return tokens;
}

ChatRequest request_of(const Json& reference, const Json& test_case) {
  ChatRequest request;
  request.messages = *test_case.find("messages");
  if (const Json* tools = test_case.find("tools")) request.tools = *tools;
  if (const Json* documents = test_case.find("documents")) request.documents = *documents;
  if (const Json* kwargs = test_case.find("chat_template_kwargs")) request.kwargs = *kwargs;
  request.generation_prompt = test_case.find("add_generation_prompt")->as_bool().value()
                                  ? GenerationPrompt::kAdd
                                  : GenerationPrompt::kOmit;
  request.special_tokens = special_tokens(reference);
  request.now = parse_date(*reference.find("pinned_date")->as_string());
  return request;
}

void expect_spans_to_cover(const RenderedPrompt& prompt) {
  size_t at = 0;
  for (const PromptSpan& span : prompt.spans) {
    EXPECT_EQ(span.begin, at);
    EXPECT_LT(span.begin, span.end);
    at = span.end;
  }
  EXPECT_EQ(at, prompt.text.size());
}

TEST(ChatTemplateReference, RendersEveryCaseAsHuggingFaceDoes) {
  const auto files = reference_files();
  if (files.empty()) GTEST_SKIP() << "the reference templates are not at hand";
  for (const auto& path : files) {
    const Json reference = load(path);
    const auto chat =
        ChatTemplate::parse(*reference.find("template")->as_string(), special_tokens(reference));
    ASSERT_TRUE(chat.ok()) << path << ": " << chat.error().message;
    for (const Json& test_case : *reference.find("cases")->as_array()) {
      SCOPED_TRACE(path.filename().string() + ", " + *test_case.find("name")->as_string());
      const auto prompt = chat->render_verbatim(request_of(reference, test_case));
      if (test_case.find("error") != nullptr) {
        ASSERT_FALSE(prompt.ok()) << prompt->text;
        EXPECT_NE(prompt.error().message.find(*test_case.find("message")->as_string()),
                  std::string::npos)
            << prompt.error().message;
        continue;
      }
      ASSERT_TRUE(prompt.ok()) << prompt.error().message;
      EXPECT_EQ(prompt->text, *test_case.find("prompt")->as_string());
      expect_spans_to_cover(*prompt);
      // What a template understands already, the adapters leave alone.
      const auto adapted = chat->render(request_of(reference, test_case));
      ASSERT_TRUE(adapted.ok()) << adapted.error().message;
      EXPECT_EQ(adapted->text, prompt->text);
    }
  }
}

/// What each template's model writes, as its own documentation says.
struct Expected {
  ToolCallFormat tool_calls;
  std::string reasoning;  // the opening tag
};
const std::map<std::string, Expected>& expected_formats() {
  using Format = ToolCallFormat;
  static const std::map<std::string, Expected> formats = {
      {"CohereForAI-c4ai-command-r-plus-tool_use", {Format::kCommandR, ""}},
      {"GLM-4.6", {Format::kTagged, "<think>"}},
      {"HuggingFaceTB-SmolLM3-3B", {Format::kNone, "<think>"}},  // speaks of no calls
      {"NousResearch-Hermes-3-Llama-3.1-8B-tool_use", {Format::kTagged, ""}},
      {"Qwen-Qwen2.5-7B-Instruct", {Format::kTagged, ""}},
      {"deepseek-ai-DeepSeek-R1-Distill-Llama-8B", {Format::kDeepSeek, "<think>"}},
      {"exaone4", {Format::kTagged, "<think>"}},
      {"fireworks-ai-llama-3-firefunction-v2", {Format::kFunctools, ""}},
      {"google-gemma-2-2b-it", {Format::kNone, ""}},
      {"meta-llama-Llama-3.1-8B-Instruct", {Format::kLlama3, ""}},
      {"microsoft-Phi-3.5-mini-instruct", {Format::kNone, ""}},
      {"mistralai-Mistral-Nemo-Instruct-2407", {Format::kMistral, ""}},
      {"openai-gpt-oss-120b", {Format::kHarmony, "<|channel|>analysis<|message|>"}},
      {"qwen3_training", {Format::kTagged, "<think>"}},
  };
  return formats;
}

TEST(ChatTemplateReference, RecognizesHowEachModelWritesReasoningAndToolCalls) {
  const auto files = reference_files();
  if (files.empty()) GTEST_SKIP() << "the reference templates are not at hand";
  for (const auto& path : files) {
    SCOPED_TRACE(path.stem().string());
    const Json reference = load(path);
    const auto chat =
        ChatTemplate::parse(*reference.find("template")->as_string(), special_tokens(reference));
    const auto expected = expected_formats().find(path.stem().string());
    if (expected == expected_formats().end()) continue;
    const TemplateTraits& traits = chat->traits();
    EXPECT_EQ(name(traits.tool_call_format), name(expected->second.tool_calls));
    EXPECT_EQ(traits.reasoning_tags ? traits.reasoning_tags->first : "",
              expected->second.reasoning);
  }
}

Json parsed_json(const char* text) {
  return Json::parse(text, "a test").value();
}

/// What a model would have to write to get this assistant's turn: the rendered turn without the
/// prompt before it. Nothing where the template does not render the one as a beginning of the
/// other.
std::optional<std::string> answer_that_renders(const ChatTemplate& chat, ChatRequest request,
                                               const Json& turn) {
  request.generation_prompt = GenerationPrompt::kAdd;
  const auto before = chat.render(request);
  request.generation_prompt = GenerationPrompt::kOmit;
  request.messages.push_back(turn);
  const auto after = chat.render(request);
  if (!before.ok() || !after.ok() || !after->text.starts_with(before->text)) return std::nullopt;
  return after->text.substr(before->text.size());
}

TEST(ChatTemplateReference, ReadsTheToolCallsThatTheTemplatesThemselvesRender) {
  const auto files = reference_files();
  if (files.empty()) GTEST_SKIP() << "the reference templates are not at hand";
  int num_read = 0;
  for (const auto& path : files) {
    SCOPED_TRACE(path.stem().string());
    const Json reference = load(path);
    const auto chat =
        ChatTemplate::parse(*reference.find("template")->as_string(), special_tokens(reference));
    if (!chat->traits().tool_calls) continue;
    ChatRequest request;
    request.special_tokens = special_tokens(reference);
    request.messages = parsed_json(R"([{"role": "user", "content": "What time is it?"}])");
    request.tools = parsed_json(R"([{"type": "function", "function": {"name": "get_time",
        "description": "The time", "parameters": {"type": "object", "properties":
        {"zone": {"type": "string", "description": "A zone"}}, "required": ["zone"]}}}])");
    const auto answer = answer_that_renders(
        *chat, request, parsed_json(R"({"role": "assistant", "content": null, "tool_calls":
        [{"id": "call12345", "type": "function", "function": {"name": "get_time",
        "arguments": {"zone": "Europe/Zurich"}}}]})"));
    if (!answer) continue;
    AnswerParser parser(chat->traits().answer_format(), "");
    AnswerEvents events = parser.push(*answer);
    for (AnswerEvent& event : parser.finish()) events.push_back(std::move(event));
    const auto call = std::find_if(events.begin(), events.end(), [](const AnswerEvent& event) {
      return event.kind == AnswerEvent::Kind::kToolCall;
    });
    ASSERT_NE(call, events.end()) << *answer;
    EXPECT_EQ(call->call.name, "get_time");
    EXPECT_EQ(Json::parse(call->call.arguments, "arguments").value(),
              parsed_json(R"({"zone": "Europe/Zurich"})"));
    ++num_read;
  }
  EXPECT_GE(num_read, 6);
}

}  // namespace
}  // namespace quire::context
