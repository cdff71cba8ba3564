// Reasoning, content and tool calls in what real models write, whole and cut at every byte.
#include "context/answer_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "context/chat_template.h"
#include "context/tokenizer_testing.h"

namespace quire::context {
namespace {

using Kind = AnswerEvent::Kind;
using testing::ElementsAre;

AnswerEvent content(std::string text) {
  return {Kind::kContent, std::move(text), {}};
}
AnswerEvent reasoning(std::string text) {
  return {Kind::kReasoning, std::move(text), {}};
}
AnswerEvent call(std::string name, std::string arguments, std::string id = {}) {
  return {Kind::kToolCall, {}, {std::move(name), std::move(arguments), std::move(id)}};
}

const AnswerFormat kThinking{{{"<think>", "</think>"}}, ToolCallFormat::kNone};

AnswerFormat calls(ToolCallFormat format) {
  return {std::nullopt, format};
}

/// Neighbours of one kind joined, as they come in pieces when streamed.
AnswerEvents joined(const AnswerEvents& events) {
  AnswerEvents out;
  for (const AnswerEvent& event : events) {
    const bool continues =
        !out.empty() && out.back().kind == event.kind && event.kind != Kind::kToolCall;
    if (continues) {
      out.back().text += event.text;
    } else {
      out.push_back(event);
    }
  }
  return out;
}

void append(AnswerEvents& events, AnswerEvents more) {
  for (AnswerEvent& event : more) events.push_back(std::move(event));
}

/// The events of `answer` in one piece; fails if pieces of other sizes give other events.
AnswerEvents parsed(const AnswerFormat& format, std::string_view answer,
                    std::string_view prompt_tail = {}) {
  AnswerParser whole(format, prompt_tail);
  AnswerEvents expected = whole.push(answer);
  append(expected, whole.finish());
  expected = joined(expected);
  for (const size_t piece_bytes : {1, 2, 3, 5, 7, 11}) {
    AnswerParser parser(format, prompt_tail);
    AnswerEvents events;
    for (size_t at = 0; at < answer.size(); at += piece_bytes) {
      append(events, parser.push(answer.substr(at, piece_bytes)));
    }
    append(events, parser.finish());
    EXPECT_EQ(joined(events), expected) << "in pieces of " << piece_bytes << ": " << answer;
  }
  return expected;
}

TEST(AnswerParser, GivesContentAsItStandsWhereNothingElseIsKnown) {
  EXPECT_THAT(parsed({}, " a <think> {\"name\": 1}\n"),
              ElementsAre(content(" a <think> {\"name\": 1}\n")));
  EXPECT_THAT(parsed({}, ""), ElementsAre());
}

TEST(AnswerParser, ShowsReasoningApartAndDropsTheBlanksAroundIt) {
  EXPECT_THAT(parsed(kThinking, "<think>\nhm,\n\nwell\n</think>\n\nYes.\n"),
              ElementsAre(reasoning("hm,\n\nwell"), content("Yes.\n")));
  EXPECT_THAT(parsed(kThinking, "<think>\n\n</think>\n\nYes"), ElementsAre(content("Yes")));
  EXPECT_THAT(parsed(kThinking, "a < b <thin"), ElementsAre(content("a < b <thin")));
}

TEST(AnswerParser, KnowsThatTheTemplateOpenedTheReasoning) {
  EXPECT_THAT(parsed(kThinking, "hm</think>Yes", "<|im_start|>assistant\n<think>\n"),
              ElementsAre(reasoning("hm"), content("Yes")));
  EXPECT_THAT(parsed(kThinking, "never closed ", "<think>"),
              ElementsAre(reasoning("never closed")));
}

TEST(AnswerParser, ReadsHermesCalls) {
  const AnswerFormat format = calls(ToolCallFormat::kTagged);
  EXPECT_THAT(parsed(format,
                     "I look.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": [1, \"}\"]}}\n"
                     "</tool_call>\n<tool_call>{\"arguments\": {}, \"name\": \"g\"}</tool_call>"),
              ElementsAre(content("I look."), call("f", R"({"x": [1, "}"]})"), call("g", "{}")));
}

TEST(AnswerParser, KeepsEveryDigitOfAnArgument) {
  EXPECT_THAT(
      parsed(calls(ToolCallFormat::kTagged),
             R"(<tool_call>{"name":"f","arguments":{"id":12345678901234567890}}</tool_call>)"),
      ElementsAre(call("f", R"({"id":12345678901234567890})")));
}

TEST(AnswerParser, TakesAClosingTagInsideAStringForText) {
  EXPECT_THAT(parsed(calls(ToolCallFormat::kTagged),
                     R"(<tool_call>{"name":"f","arguments":{"x":"</tool_call>\""}}</tool_call>.)"),
              ElementsAre(call("f", R"({"x":"</tool_call>\""})"), content(".")));
}

TEST(AnswerParser, ReadsArgumentsThatAreAStringOfJson) {
  EXPECT_THAT(parsed(calls(ToolCallFormat::kTagged),
                     R"(<tool_call>{"name":"f","arguments":"{\"x\":1}"}</tool_call>)"),
              ElementsAre(call("f", R"({"x":1})")));
}

TEST(AnswerParser, ReadsTheTagsOfQwenCoderAndGlm) {
  const AnswerFormat format = calls(ToolCallFormat::kTagged);
  EXPECT_THAT(parsed(format,
                     "<tool_call>\n<function=get_time>\n<parameter=zone>\nEurope/Zurich\n"
                     "</parameter>\n<parameter=n>\n3\n</parameter>\n</function>\n</tool_call>"),
              ElementsAre(call("get_time", R"({"zone":"Europe/Zurich","n":3})")));
  EXPECT_THAT(
      parsed(format,
             "\n<tool_call>get_time\n<arg_key>zone</arg_key>\n<arg_value>Europe/Zurich"
             "</arg_value>\n<arg_key>n</arg_key>\n<arg_value>[3]</arg_value>\n</tool_call>"),
      ElementsAre(call("get_time", R"({"zone":"Europe/Zurich","n":[3]})")));
}

TEST(AnswerParser, GivesBackByteForByteWhatOnlyLooksLikeACall) {
  for (const char* text :
       {"a <tool_call>\n{\"name\": 3}\n</tool_call> b", "<tool_call>{\"name\": \"f\"",
        "x\n<tool_call>no call</tool_call>\ny", "<tool_call></tool_call>",
        "<tool_call>{\"name\":\"f\",\"arguments\":[1]}</tool_call>"}) {
    EXPECT_THAT(parsed(calls(ToolCallFormat::kTagged), text), ElementsAre(content(text)));
  }
  for (const char* text : {"{\"a\": 1} is an object", "{\"name\": \"f\"", " {}", "{not json}",
                           "see {\"name\": \"f\", \"parameters\": {}}"}) {
    EXPECT_THAT(parsed(calls(ToolCallFormat::kLlama3), text), ElementsAre(content(text)));
  }
  for (const char* text : {"[TOOL_CALLS]", "[TOOL_CALLS] [3]", "[TOOL_CALLS]f[ARGS]{\"x\":"}) {
    EXPECT_THAT(parsed(calls(ToolCallFormat::kMistral), text), ElementsAre(content(text)));
  }
}

TEST(AnswerParser, ReadsLlama3Calls) {
  const AnswerFormat format = calls(ToolCallFormat::kLlama3);
  EXPECT_THAT(parsed(format, R"({"name": "f", "parameters": {"x": "y"}})"),
              ElementsAre(call("f", R"({"x": "y"})")));
  EXPECT_THAT(parsed(format, R"({"name": "f", "parameters": {}}; {"name": "g", "parameters": {}})"),
              ElementsAre(call("f", "{}"), call("g", "{}")));
  EXPECT_THAT(parsed(format, "<|python_tag|>brave_search.call(query=\"a, b\", n=3)"),
              ElementsAre(call("brave_search", R"({"query":"a, b","n":3})")));
  EXPECT_THAT(parsed(format, "<|python_tag|>{\"name\": \"f\", \"parameters\": {}}"),
              ElementsAre(call("f", "{}")));
  EXPECT_THAT(parsed(format, "<|python_tag|>print(1)\n"),
              ElementsAre(call("python", "{\"code\":\"print(1)\"}")));
}

TEST(AnswerParser, ReadsMistralCalls) {
  const AnswerFormat format = calls(ToolCallFormat::kMistral);
  EXPECT_THAT(
      parsed(format, R"([TOOL_CALLS] [{"name": "f", "arguments": {"x": 1}, "id": "abc123def"},)"
                     R"( {"name": "g", "arguments": {}}])"),
      ElementsAre(call("f", R"({"x": 1})", "abc123def"), call("g", "{}")));
  EXPECT_THAT(parsed(format, R"(Well.[TOOL_CALLS]f[ARGS]{"x": 1}[TOOL_CALLS]g[CALL_ID]i1[ARGS]{})"),
              ElementsAre(content("Well."), call("f", R"({"x": 1})"), call("g", "{}", "i1")));
}

TEST(AnswerParser, ReadsDeepSeekCalls) {
  const AnswerFormat format = calls(ToolCallFormat::kDeepSeek);
  EXPECT_THAT(
      parsed(
          format,
          "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"x\": "
          "\"`\"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n"
          "{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"),
      ElementsAre(call("f", "{\"x\": \"`\"}"), call("g", "{}")));
  EXPECT_THAT(parsed(format,
                     "Now.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"x\":1}"
                     "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"),
              ElementsAre(content("Now."), call("f", "{\"x\":1}")));
}

TEST(AnswerParser, ReadsFunctoolsAndCommandR) {
  EXPECT_THAT(parsed(calls(ToolCallFormat::kFunctools),
                     R"( functools[{"name": "f", "arguments": {"x": 1}}])"),
              ElementsAre(call("f", R"({"x": 1})")));
  EXPECT_THAT(parsed(calls(ToolCallFormat::kCommandR),
                     "Action: ```json\n[\n    {\n        \"tool_name\": \"f\",\n"
                     "        \"parameters\": {\"x\": 1}\n    }\n]```"),
              ElementsAre(call("f", R"({"x": 1})")));
}

TEST(AnswerParser, ReadsTheChannelsOfHarmony) {
  const AnswerFormat format = calls(ToolCallFormat::kHarmony);
  const char* tail = "<|start|>assistant";
  EXPECT_THAT(parsed(format,
                     "<|channel|>analysis<|message|>Let me see.<|end|><|start|>assistant<|channel|>"
                     "final<|message|>Hello!",
                     tail),
              ElementsAre(reasoning("Let me see."), content("Hello!")));
  EXPECT_THAT(
      parsed(format,
             "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>commentary "
             "to=functions.f <|constrain|>json<|message|>{\"x\": 1}<|call|>",
             tail),
      ElementsAre(reasoning("a"), call("f", "{\"x\": 1}")));
  EXPECT_THAT(parsed(format, " to=functions.f<|channel|>commentary json<|message|>{}", tail),
              ElementsAre(call("f", "{}")));
  EXPECT_THAT(parsed(format, "go on", "<|start|>assistant<|channel|>final<|message|>I "),
              ElementsAre(content("go on")));
  EXPECT_THAT(parsed(format, "no header at all"), ElementsAre(content("no header at all")));
}

TEST(AnswerParser, FindsReasoningAndCallsInOneAnswer) {
  const AnswerFormat format{{{"<think>", "</think>"}}, ToolCallFormat::kTagged};
  EXPECT_THAT(parsed(format,
                     "<think>\nI need <tool_call>s.\n</think>\n\n<tool_call>\n{\"name\": \"f\", "
                     "\"arguments\": {}}\n</tool_call>\n"),
              ElementsAre(reasoning("I need <tool_call>s."), call("f", "{}")));
}

TEST(AnswerDecoder, DropsControlTokensButForThoseThatStructureTheAnswer) {
  SmallTokenizer small;
  small.characters = "abcdefghijklmnopqrstuvwxyz{}\":, ";
  small.added = added_token(40, "[TOOL_CALLS]", R"("special":true)") + "," +
                added_token(41, "</s>", R"("special":true)") + "," +
                added_token(42, "[ARGS]", R"("special":true)");
  const Tokenizer tokenizer = small.build();
  AnswerDecoder decoder(tokenizer, calls(ToolCallFormat::kMistral), "");
  AnswerEvents events;
  for (const TokenId id :
       tokenizer.encode("ab[TOOL_CALLS]f[ARGS]{\"x\": \"y\"}</s>", Special::kParse)) {
    append(events, decoder.push(id));
  }
  append(events, decoder.finish());
  EXPECT_THAT(joined(events), ElementsAre(content("ab"), call("f", R"({"x": "y"})")));
}

}  // namespace
}  // namespace quire::context
