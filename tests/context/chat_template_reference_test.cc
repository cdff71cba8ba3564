// Real chat templates against what Hugging Face renders for them, byte for byte.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

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

}  // namespace
}  // namespace quire::context
