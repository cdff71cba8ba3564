#include <gtest/gtest.h>

#include <algorithm>

#include "context/answer_parser.h"
#include "engine/constrained_answer.h"
#include "engine/json_constraint.h"
#include "engine/naive_schema.h"

namespace quire::engine {
namespace {

using context::AnswerEvent;
using context::Tokenizer;
using context::ToolCallFormat;
using formats::Json;

const char* const kWeather = R"({"type": "object", "properties": {"city": {"type": "string"},
    "days": {"type": "integer", "minimum": 1, "maximum": 9}}, "required": ["city"]})";

Json tools() {
  return parsed(std::string(R"([{"type": "function", "function": {"name": "get_weather",
      "description": "says the weather", "parameters": )") +
                kWeather + R"(}}, {"type": "function", "function": {"name": "stop"}}])");
}

Result<std::unique_ptr<TokenConstraint>> constraint(const Tokenizer& tokenizer,
                                                    ToolCallFormat format, std::string_view source,
                                                    const ToolChoice& choice) {
  return JsonConstraints::create(tokenizer).value().tool_calls(format, source, tools(), choice);
}

std::vector<AnswerEvent> events_of(ToolCallFormat format, const std::string& text) {
  context::AnswerParser parser({.tool_calls = format}, "<|start|>assistant");
  std::vector<AnswerEvent> events = parser.push(text);
  for (AnswerEvent& event : parser.finish()) events.push_back(std::move(event));
  return events;
}

struct Writing {
  ToolCallFormat format;
  const char* source;
};
const Writing kWritings[] = {
    {ToolCallFormat::kTagged, "<tool_call>"},   {ToolCallFormat::kLlama3, ""},
    {ToolCallFormat::kMistral, "[TOOL_CALLS]"}, {ToolCallFormat::kMistral, "[ARGS]"},
    {ToolCallFormat::kDeepSeek, "```json"},     {ToolCallFormat::kDeepSeek, ""},
    {ToolCallFormat::kFunctools, "functools["}, {ToolCallFormat::kCommandR, "Action:"},
    {ToolCallFormat::kHarmony, "<|channel|>"},
};

/// Whatever is said at random reads back as calls of these tools, and as nothing else.
void expect_calls(const Tokenizer& tokenizer, const Writing& writing, const ToolChoice& choice,
                  Random& random) {
  const auto made = constraint(tokenizer, writing.format, writing.source, choice);
  ASSERT_TRUE(made.ok()) << made.error().message;
  const RandomAnswer answer = random_answer(tokenizer, **made, random, 60);
  ASSERT_TRUE(answer.finished) << answer.text.substr(0, 500);
  const auto events = events_of(writing.format, answer.text);
  ASSERT_FALSE(events.empty());
  ASSERT_LE(events.size(), static_cast<size_t>(choice.most_calls));
  const Json weather = parsed(kWeather);
  for (const AnswerEvent& event : events) {
    ASSERT_EQ(event.kind, AnswerEvent::Kind::kToolCall) << answer.text << "\n" << event.text;
    const Json arguments = parsed(event.call.arguments);
    if (choice.name) {
      ASSERT_EQ(event.call.name, *choice.name);
    }
    if (event.call.name == "stop") {
      ASSERT_EQ(arguments, parsed("{}"));
    } else {
      ASSERT_EQ(event.call.name, "get_weather");
      ASSERT_TRUE(NaiveSchema(weather).accepts(arguments)) << event.call.arguments;
    }
  }
}

TEST(ToolConstraint, WhateverIsSaidAtRandomReadsBackAsCallsInEveryFormat) {
  Random random(7);
  for (const Writing& writing : kWritings) {
    for (int i = 0; i < 6; ++i) {
      SCOPED_TRACE(std::string(name(writing.format)) + " " + writing.source);
      expect_calls(tiny_vocabulary(), writing, {.name = {}, .most_calls = 1}, random);
      expect_calls(tiny_vocabulary(), writing, {.name = {}, .most_calls = 3}, random);
      expect_calls(tiny_vocabulary(), writing, {.name = "get_weather"}, random);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(ToolConstraint, MarkersAreTokensOfTheirOwnWhereTheVocabularyHasThem) {
  const auto qwen = tokenizer_of(QUIRE_SOURCE_DIR "/../shared/tokenizers/qwen3");
  if (!qwen) GTEST_SKIP() << "needs ../shared/tokenizers/qwen3";
  const auto made =
      constraint(*qwen, ToolCallFormat::kTagged, "<tool_call>", {.name = "get_weather"});
  const auto first = allowed_tokens(**made, qwen->vocab_size());
  ASSERT_LE(first.size(), 3u);  // it, a space and a line feed
  EXPECT_EQ(std::count(first.begin(), first.end(), *qwen->find("<tool_call>")), 1);
  EXPECT_EQ(std::count(first.begin(), first.end(), *qwen->find("<")), 0);
  EXPECT_TRUE(permits(*qwen, **made,
                      "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": "
                      "\"Oslo\", \"days\": 3}}\n</tool_call>"));
  Random random(8);
  expect_calls(*qwen, kWritings[0], {.name = {}, .most_calls = 2}, random);
}

std::string refusal(ToolCallFormat format, std::string_view source, const Json& tools,
                    const ToolChoice& choice, ErrorCode code) {
  const auto made =
      JsonConstraints::create(tiny_vocabulary()).value().tool_calls(format, source, tools, choice);
  if (made.ok()) return "it was accepted";
  EXPECT_EQ(made.error().code, code);
  return made.error().message;
}

TEST(ToolConstraint, RefusesWhatCannotBeForced) {
  EXPECT_EQ(refusal(ToolCallFormat::kNone, "", tools(), {}, ErrorCode::kUnsupported),
            "tool_choice cannot ask for a call: this model's chat template has no format for calls "
            "of tools; leave it at \"auto\"");
  EXPECT_EQ(refusal(ToolCallFormat::kTagged, "<function=", tools(), {}, ErrorCode::kUnsupported),
            "tool_choice cannot ask for a call: this model writes the arguments of a call as tags, "
            "which cannot be forced yet; leave it at \"auto\"");
  EXPECT_EQ(refusal(ToolCallFormat::kTagged, "", tools(), {.name = "fly"}, ErrorCode::kUsage),
            "tool_choice names fly, which is none of the tools");
  EXPECT_EQ(refusal(ToolCallFormat::kTagged, "", parsed("[]"), {}, ErrorCode::kUsage),
            "tool_choice asks for a call, but there are no tools");
  EXPECT_EQ(refusal(ToolCallFormat::kTagged, "",
                    parsed(R"([{"function": {"name": "f", "parameters": {"not": {}}}}])"), {},
                    ErrorCode::kUsage),
            "the parameters of the tool f: the schema at #: not is not supported");
  EXPECT_EQ(refusal(ToolCallFormat::kTagged, "", parsed(R"([{"function": {"name": "a\"b"}}])"), {},
                    ErrorCode::kUsage),
            "the tool name a\"b may hold letters, digits, _, - and . only");
}

}  // namespace
}  // namespace quire::engine
