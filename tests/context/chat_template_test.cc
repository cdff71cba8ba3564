// Chat templates: spans, adapters and traits, on small templates in the style of real ones.
#include <gtest/gtest.h>

#include <string>

#include "context/chat_template.h"

namespace quire::context {
namespace {

using formats::Json;
using Kind = PromptSource::Kind;

constexpr const char* kChatMl =
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou help.<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

/// Refuses system messages and turns that do not alternate, as Gemma 2 does.
constexpr const char* kStrictTurns =
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for message in messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate') }}{% endif %}"
    "<start_of_turn>{{ 'model' if message['role'] == 'assistant' else message['role'] }}\n"
    "{{ message['content'] | trim }}<end_of_turn>\n"
    "{% endfor %}{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}";

/// Prints tool calls; `arguments` decides how.
std::string tool_template(const std::string& call, const std::string& content) {
  return "{% if tools %}TOOLS {{ tools | tojson }}\n{% endif %}{% for m in messages %}"
         "[{{ m.role }}]" +
         content + "{% if m.tool_calls %}{% for c in m.tool_calls %}" + call +
         "{% endfor %}{% endif %}{{ '\n' }}{% endfor %}";
}

Json messages(const char* text) {
  return Json::parse(text, "the messages").value();
}

ChatTemplate parsed(const std::string& source) {
  return ChatTemplate::parse(source, {{"bos_token", "<bos>"}}).value();
}

ChatRequest request(const char* text) {
  ChatRequest out;
  out.messages = messages(text);
  out.special_tokens = {{"bos_token", "<bos>"}};
  out.generation_prompt = GenerationPrompt::kOmit;
  return out;
}

std::string rendered(const std::string& source, const char* text) {
  const auto prompt = parsed(source).render(request(text));
  return prompt.ok() ? prompt->text : "ERROR " + prompt.error().message;
}

TEST(ChatTemplate, RendersAConversationWithAGenerationPrompt) {
  ChatRequest chat = request(R"([{"role": "user", "content": "Hi"}])");
  chat.generation_prompt = GenerationPrompt::kAdd;
  EXPECT_EQ(parsed(kChatMl).render(chat)->text,
            "<|im_start|>system\nYou help.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
            "<|im_start|>assistant\n");
}

TEST(ChatTemplate, SpansTellMessageTextFromTemplateText) {
  const auto prompt = parsed(kChatMl).render(request(
      R"([{"role": "system", "content": "S"}, {"role": "user", "content": "<|im_end|>"}])"));
  ASSERT_TRUE(prompt.ok());
  ASSERT_EQ(prompt->text,
            "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\n<|im_end|><|im_end|>\n");
  const PromptSource system{Kind::kMessage, 0, "system"};
  const PromptSource user{Kind::kMessage, 1, "user"};
  const std::vector<PromptSpan> expected = {
      {0, 19, {}}, {19, 20, system}, {20, 48, {}}, {48, 58, user}, {58, 69, {}}};
  EXPECT_EQ(prompt->spans, expected);
}

TEST(ChatTemplate, AStrangeRoleIsMessageTextAndAPlainOneIsNot) {
  const char* source = "{% for m in messages %}<|{{ m.role }}|>{% endfor %}";
  const auto plain = parsed(source).render(request(R"([{"role": "user", "content": ""}])"));
  EXPECT_EQ(plain->spans.size(), 1u);
  EXPECT_EQ(plain->spans[0].source.kind, Kind::kTemplate);
  const auto strange =
      parsed(source).render(request(R"([{"role": "a|><|im_end", "content": ""}])"));
  ASSERT_EQ(strange->spans.size(), 3u);
  EXPECT_EQ(strange->spans[1].source.kind, Kind::kMessage);
}

TEST(ChatTemplate, SpansNameToolsDocumentsAndKwargs) {
  ChatRequest chat = request("[]");
  chat.tools = Json::parse(R"([{"name": "f"}])", "tools").value();
  chat.documents = Json::parse(R"(["D"])", "documents").value();
  chat.kwargs = Json::parse(R"({"mood": "K"})", "kwargs").value();
  const auto prompt = parsed("{{ tools[0]|tojson }}{{ documents[0] }}{{ mood }}.").render(chat);
  ASSERT_TRUE(prompt.ok());
  EXPECT_EQ(prompt->text, R"({"name": "f"}DK.)");
  ASSERT_EQ(prompt->spans.size(), 4u);
  EXPECT_EQ(prompt->spans[0].source.kind, Kind::kTools);
  EXPECT_EQ(prompt->spans[1].source.kind, Kind::kDocuments);
  EXPECT_EQ(prompt->spans[2].source.kind, Kind::kKwargs);
  EXPECT_EQ(prompt->spans[3].source.kind, Kind::kTemplate);
}

TEST(ChatTemplate, PassesNoneForAbsentToolsAndDropsNullMembers) {
  EXPECT_EQ(rendered("{{ tools is none }}{{ documents is none }}{{ messages[0].name is defined }}",
                     R"([{"role": "user", "content": "x", "name": null}])"),
            "TrueTrueFalse");
}

TEST(ChatTemplate, OffersReasoningUnderBothNames) {
  EXPECT_EQ(rendered("{{ messages[0].thinking }}{{ messages[0].content }}",
                     R"([{"role": "assistant", "content": "x", "reasoning_content": "hm "}])"),
            "hm x");
}

TEST(ChatTemplate, FoldsTheSystemMessageWhereATemplateHasNoSystemRole) {
  const char* conversation =
      R"([{"role": "system", "content": "S."}, {"role": "user", "content": "U"}])";
  const auto prompt = parsed(kStrictTurns).render(request(conversation));
  ASSERT_TRUE(prompt.ok()) << prompt.error().message;
  EXPECT_EQ(prompt->text, "<bos><start_of_turn>user\nS.\n\nU<end_of_turn>\n");
  EXPECT_EQ(prompt->adaptations.size(), 1u);
  ASSERT_EQ(prompt->spans.size(), 5u);
  EXPECT_EQ(prompt->spans[1].source, (PromptSource{Kind::kMessage, 0, "system"}));
  EXPECT_EQ(prompt->spans[3].source, (PromptSource{Kind::kMessage, 1, "user"}));
  const auto verbatim = parsed(kStrictTurns).render_verbatim(request(conversation));
  ASSERT_FALSE(verbatim.ok());
  EXPECT_EQ(verbatim.error().message, "chat template, line 1: System role not supported");
  EXPECT_EQ(verbatim.error().code, ErrorCode::kUsage);
}

TEST(ChatTemplate, ALonelySystemMessageBecomesAUserMessage) {
  EXPECT_EQ(rendered(kStrictTurns, R"([{"role": "system", "content": "S"}])"),
            "<bos><start_of_turn>user\nS<end_of_turn>\n");
}

constexpr const char* kCallWithText =
    R"([{"role": "user", "content": "U"}, {"role": "assistant", "content": null, "tool_calls":
    [{"id": "call00001", "type": "function", "function": {"name": "f", "arguments": "{\"x\":1}"}}]}])";

TEST(ChatTemplate, GivesArgumentsAsAnObjectWhereTheTemplateWritesJson) {
  const std::string source = tool_template(
      "<{{ c.function.name }} {{ c.function.arguments | tojson }}>", "{{ m.content }}");
  EXPECT_EQ(rendered(source, kCallWithText), "[user]U\n[assistant]<f {\"x\": 1}>\n");
}

TEST(ChatTemplate, GivesArgumentsAsAStringWhereTheTemplatePrintsThem) {
  const std::string source =
      tool_template("<{{ c.function.name }} {{ c.function.arguments }}>", "{{ m.content }}");
  EXPECT_EQ(rendered(source, kCallWithText), "[user]U\n[assistant]<f {\"x\":1}>\n");
  EXPECT_EQ(rendered(source, R"([{"role": "assistant", "content": "", "tool_calls":
                                 [{"function": {"name": "f", "arguments": {"x": 1}}}]}])"),
            "[assistant]<f {\"x\": 1}>\n");
}

TEST(ChatTemplate, KeepsNullContentOnlyWhereTheTemplateAsksForNone) {
  const std::string call = "<{{ c.function.name }} {{ c.function.arguments | tojson }}>";
  const std::string adds = tool_template(call, "{{ m.content + '.' }}");
  EXPECT_EQ(rendered(adds, kCallWithText), "[user]U.\n[assistant].<f {\"x\": 1}>\n");
  const std::string asks =
      tool_template(call, "{% if m.content is none %}-{% else %}{{ m.content + '.' }}{% endif %}");
  EXPECT_EQ(rendered(asks, kCallWithText), "[user]U.\n[assistant]-<f {\"x\": 1}>\n");
}

TEST(ChatTemplate, FlattensTextPartsForTemplatesOfStringsAndWrapsStringsForTemplatesOfParts) {
  EXPECT_EQ(rendered("{% for m in messages %}{{ m.content + '.' }}{% endfor %}",
                     R"([{"role": "user", "content": [{"type": "text", "text": "a"},
                                                      {"type": "text", "text": "b"}]}])"),
            "ab.");
  EXPECT_EQ(rendered("{% for m in messages %}{% for p in m.content %}{{ p.text + '.' }}"
                     "{% endfor %}{% endfor %}",
                     R"([{"role": "user", "content": "a"}])"),
            "a.");
}

TEST(ChatTemplate, RefusesMessagesThatAreNoObjects) {
  const ChatTemplate chat = parsed(kChatMl);
  EXPECT_EQ(chat.render(request("{}")).error().message, "messages must be an array");
  EXPECT_EQ(chat.render(request(R"([{"role": "user", "content": "x"}, 3])")).error().message,
            "messages[1] must be an object");
}

TEST(ChatTemplate, ReportsThatATemplateUsesTheDate) {
  ChatRequest chat = request(R"([{"role": "user", "content": "x"}])");
  chat.now = std::chrono::sys_days(std::chrono::year(2025) / 1 / 2);
  const ChatTemplate dated = parsed("{{ strftime_now('%Y-%m-%d') }} {{ messages[0].content }}");
  EXPECT_TRUE(dated.render(chat)->used_clock);
  EXPECT_EQ(dated.render(chat)->text, "2025-01-02 x");
  EXPECT_TRUE(dated.traits().uses_clock);
  EXPECT_FALSE(parsed(kChatMl).render(chat)->used_clock);
}

TEST(ChatTemplateTraits, DescribeWhatTheTemplateCanDo) {
  const TemplateTraits chatml = parsed(kChatMl).traits();
  EXPECT_TRUE(chatml.system_role);
  EXPECT_TRUE(chatml.generation_prompt);
  EXPECT_FALSE(chatml.prints_bos);
  EXPECT_FALSE(chatml.tools);
  EXPECT_FALSE(chatml.tool_calls);
  const std::vector<std::string> chatml_after = {"<|im_end|>\n<|im_start|>user\n", "<|im_end|>\n"};
  EXPECT_EQ(chatml.after_answer, chatml_after);

  const TemplateTraits strict = parsed(kStrictTurns).traits();
  EXPECT_FALSE(strict.system_role);
  EXPECT_TRUE(strict.prints_bos);

  const std::string with_tools = tool_template(
      "<{{ c.function.name }} {{ c.function.arguments | tojson }}>", "{{ m.content }}");
  EXPECT_TRUE(parsed(with_tools).traits().tools);
  EXPECT_TRUE(parsed(with_tools).traits().tool_calls);
  EXPECT_EQ(parsed("{% if '</think>' in messages[0].content %}{% endif %}").traits().reasoning_tags,
            (std::pair<std::string, std::string>("<think>", "</think>")));
}

TEST(ChatTemplateTraits, ATemplateThatAlwaysFailsStillParses) {
  const auto chat = ChatTemplate::parse("{{ raise_exception('no') }}");
  ASSERT_TRUE(chat.ok());
  EXPECT_FALSE(chat->traits().system_role);
  EXPECT_TRUE(chat->traits().after_answer.empty());
}

TEST(ChatTemplate, ASyntaxErrorNamesItsLine) {
  const auto chat = ChatTemplate::parse("a\n{% if %}");
  ASSERT_FALSE(chat.ok());
  EXPECT_EQ(chat.error().message, "chat template, line 2: expected an expression, got '%}'");
}

}  // namespace
}  // namespace quire::context
