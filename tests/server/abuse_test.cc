// Requests that no client should send: each gets a clear 4xx, and another stream goes on unharmed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/tiny_server.h"

namespace quire::server {
namespace {

using formats::Json;

struct Bad {
  std::string path;
  std::string body;
  std::string param;  // what the error names at least as its beginning; "": anything
};

std::string chat(const std::string& more) {
  return R"({"messages":[{"role":"user","content":"x"}],"max_tokens":2,)" + more + "}";
}

std::string repeated(std::string_view text, size_t times) {
  std::string out;
  for (size_t i = 0; i < times; ++i) out += text;
  return out;
}

/// Each number of each field: below, above, far beyond, of a wrong type.
std::vector<Bad> numbers() {
  std::vector<Bad> bad;
  const auto add = [&](const std::string& name, std::initializer_list<const char*> values) {
    for (const char* value : values) {
      bad.push_back({"/v1/chat/completions", chat("\"" + name + "\":" + value), name});
    }
  };
  add("temperature", {"-0.1", "2.1", "1e308", "\"1\"", "[]", "{}", "true"});
  add("top_p", {"-0.1", "1.1", "7", "\"x\""});
  add("min_p", {"-1", "1.5", "null1"});
  add("top_k", {"-2", "1.5", "99999999999", "\"1\""});
  add("presence_penalty", {"-2.1", "2.1", "[]"});
  add("frequency_penalty", {"-2.1", "2.1", "1e999"});
  add("repetition_penalty", {"0", "-1", "11", "\"a\""});
  add("seed", {"1.5", "\"s\"", "99999999999999999999999"});
  add("n", {"0", "-1", "9", "1000000", "1.5", "\"2\""});
  add("max_tokens", {"0", "-1", "1.5", "\"many\"", "9223372036854775807"});
  add("max_completion_tokens", {"0", "-5", "[]"});
  add("top_logprobs", {"-1", "21", "1000", "2"});
  add("logprobs", {"1", "\"yes\""});
  add("stream", {"1", "\"true\""});
  add("stream_options", {"{}", "1", "[]"});
  add("stop", {"1", "[1]", "[\"\"]", "\"\"", "{}", "[null]"});
  add("logit_bias", {"[]", "{\"-1\":1}", "{\"999999\":1}", "{\"x\":1}", "{\"1\":101}",
                     "{\"1\":\"a\"}", "{\"1\":1e999}"});
  add("tools",
      {"1", "{}", "[1]", "[{}]", "[{\"type\":\"function\"}]", "[{\"type\":\"web_search\"}]",
       "[{\"type\":\"function\",\"function\":{\"name\":\"a b\"}}]",
       "[{\"type\":\"function\",\"function\":{\"name\":\"a\",\"parameters\":1}}]"});
  add("tool_choice", {"\"maybe\"", "\"required\"", "1", "{\"type\":\"function\"}",
                      "{\"type\":\"function\",\"function\":{\"name\":\"none\"}}"});
  add("response_format", {"1", "{}", "{\"type\":\"xml\"}", "{\"type\":\"json_schema\"}",
                          "{\"type\":\"json_schema\",\"json_schema\":{\"schema\":1}}",
                          "{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{\"type\":7}}}"});
  add("parallel_tool_calls", {"1", "\"no\""});
  add("chat_template_kwargs", {"1", "[]"});
  add("reasoning_effort", {"1", "\"huge\""});
  add("cache_prompt", {"1"});
  add("cache_salt", {"1"});
  add("model", {"1", "[]"});
  add("truncation", {"\"sometimes\"", "1"});
  add("context", {"1", "{\"policy\":\"forget\"}"});
  add("functions", {"[]"});
  add("audio", {"{}"});
  add("modalities", {"[\"audio\"]", "1"});
  return bad;
}

std::vector<Bad> shapes() {
  const std::string route = "/v1/chat/completions";
  const auto messages = [&](const std::string& text, const std::string& param) {
    return Bad{route, "{\"messages\":" + text + "}", param};
  };
  return {
      {route, "", ""},
      {route, "{", ""},
      {route, "[]", ""},
      {route, "nonsense", ""},
      {route, "{\"messages\":[{\"role\":\"user\",\"content\":NaN}]}", ""},
      {route, "{\"temperature\":NaN}", ""},
      {route, "{\"a\":\"\xff\xfe\"}", ""},
      {route, repeated("[", 100'000), ""},
      {route, "{\"a\":" + repeated("[", 65) + repeated("]", 65) + "}", ""},
      {route, "{}", "messages"},
      messages("[]", "messages"),
      messages("1", "messages"),
      messages("[1]", "messages[0]"),
      messages("[{}]", "messages[0].role"),
      messages(R"([{"role":"king","content":"x"}])", "messages[0].role"),
      messages(R"([{"role":"user"}])", "messages[0].content"),
      messages(R"([{"role":"user","content":null}])", "messages[0].content"),
      messages(R"([{"role":"user","content":1}])", "messages[0].content"),
      messages(R"([{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}])",
               "messages[0].content[0]"),
      messages(R"([{"role":"user","content":[{"type":"input_audio"}]}])", "messages[0].content[0]"),
      messages(R"([{"role":"user","content":[{"type":"text"}]}])", "messages[0].content[0]"),
      messages(R"([{"role":"user","content":[7]}])", "messages[0].content[0]"),
      messages(R"([{"role":"assistant","tool_calls":7}])", "messages[0].tool_calls"),
      messages(R"([{"role":"assistant","tool_calls":[{}]}])", "messages[0].tool_calls[0]"),
      messages("[" + repeated("0,", 1'000'000) + "0]", "messages"),
      {"/v1/chat/completions", chat("\"stop\":[" + repeated("\"a\",", 1000) + "\"a\"]"), "stop"},
      {"/v1/chat/completions", chat("\"stop\":\"" + std::string(1000, 'a') + "\""), "stop"},
      {"/v1/completions", "{}", "prompt"},
      {"/v1/completions", R"({"prompt":1})", "prompt"},
      {"/v1/completions", R"({"prompt":[]})", "prompt"},
      {"/v1/completions", R"({"prompt":[[]]})", "prompt"},
      {"/v1/completions", R"({"prompt":[-1]})", "prompt"},
      {"/v1/completions", R"({"prompt":[999999]})", "prompt"},
      {"/v1/completions", R"({"prompt":[1.5]})", "prompt"},
      {"/v1/completions", R"({"prompt":[{}]})", "prompt"},
      {"/v1/completions", R"({"prompt":["a",1]})", "prompt"},
      {"/v1/completions", "{\"prompt\":[" + repeated("\"a\",", 32) + "\"a\"]}", "prompt"},
      {"/v1/completions", "{\"prompt\":[" + repeated("1,", 1'000'000) + "1]}", "prompt"},
      {"/v1/completions", R"({"prompt":"a","echo":true})", "echo"},
      {"/v1/completions", R"({"prompt":"a","suffix":"b"})", "suffix"},
      {"/v1/completions", R"({"prompt":"a","best_of":3})", "best_of"},
      {"/v1/completions", R"({"prompt":"a","logprobs":100})", "logprobs"},
      {"/tokenize", "{}", "content"},
      {"/tokenize", R"({"content":1})", "content"},
      {"/detokenize", R"({"tokens":"a"})", "tokens"},
      {"/detokenize", R"({"tokens":[-1]})", "tokens"},
      {"/apply-template", "{}", "messages"},
      {"/v1/responses", "{}", "input"},
      {"/v1/responses", R"({"input":[]})", "input"},
      {"/v1/responses", R"({"input":[{"type":"item_reference"}]})", "input[0]"},
      {"/v1/responses", R"({"input":"x","previous_response_id":"r"})", "previous_response_id"},
      {"/v1/responses", R"({"input":"x","max_output_tokens":0})", "max_output_tokens"},
      {"/v1/responses", R"({"input":"x","tools":[{"type":"web_search"}]})", "tools[0]"},
      {"/v1/responses", R"({"input":[{"role":"user","content":[{"type":"input_image"}]}]})",
       "input[0].content[0]"},
  };
}

class AbuseTest : public testing::Test {
 protected:
  TinyServer server_;
};

TEST_F(AbuseTest, GivesAClear4xxThatNamesTheParameterWhileAStreamGoesOn) {
  RawClient other = server_.client();
  std::vector<Bad> all = numbers();
  for (Bad& bad : shapes()) all.push_back(std::move(bad));
  RawClient client = server_.client();
  const std::string good =
      R"({"messages":[{"role":"user","content":"steady"}],"temperature":0,"max_tokens":400,"stream":true})";
  other.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
             std::to_string(good.size()) + "\r\n\r\n" + good);
  for (const Bad& bad : all) {
    const RawResponse reply = client.request("POST", bad.path, bad.body);
    const std::string shown = bad.path + " " + bad.body.substr(0, 120);
    EXPECT_GE(reply.status, 400) << shown;
    EXPECT_LT(reply.status, 500) << shown << reply.body;
    const Json error = reply.json();
    EXPECT_GT(text_at(error, "error.message").size(), 10u) << shown;
    if (bad.body.find("null1") != std::string::npos ||
        bad.body.find("1e999") != std::string::npos) {
      continue;  // no JSON at all
    }
    EXPECT_THAT(text_at(error, "error.param"), testing::StartsWith(bad.param)) << shown;
  }
  const auto stream = other.read_response();
  ASSERT_TRUE(stream.has_value());
  EXPECT_EQ(stream->events().back(), "[DONE]");
  EXPECT_EQ(server_.pages_at_idle(), 0);
}

TEST_F(AbuseTest, GivesOllamasClientsTheirErrors) {
  for (const auto& [path, body] : std::vector<std::pair<std::string, std::string>>{
           {"/api/chat", "{"},
           {"/api/chat", R"({"model":"other","messages":[]})"},
           {"/api/chat", R"({"messages":[{"role":"user","content":"x","images":["aGk="]}]})"},
           {"/api/chat", R"({"messages":[{"role":"user","content":"x"}],"format":"xml"})"},
           {"/api/chat", R"({"messages":[{"role":"user","content":"x"}],"options":{"top_p":7}})"},
           {"/api/chat",
            R"({"messages":[{"role":"user","content":"x"}],"options":{"num_ctx":999999}})"},
           {"/api/chat",
            R"({"messages":[{"role":"user","content":"x"}],"options":{"num_predict":0}})"},
           {"/api/generate", R"({"prompt":1})"},
           {"/api/generate", R"({"prompt":"x","template":"{{ evil }}"})"},
           {"/api/generate", R"({"prompt":"x","suffix":"y"})"},
           {"/api/show", R"({"model":"other"})"},
       }) {
    const RawResponse reply = server_.post(path, body);
    EXPECT_GE(reply.status, 400) << body;
    EXPECT_LT(reply.status, 500) << body;
    EXPECT_GT(text_at(reply.json(), "error").size(), 10u) << body << reply.body;
  }
}

}  // namespace
}  // namespace quire::server
