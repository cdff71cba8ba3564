// The Responses API and Ollama's, on a tiny model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/tiny_server.h"

namespace quire::server {
namespace {

using formats::Json;

class OtherApisTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { shared_ = new TinyServer(); }
  static void TearDownTestSuite() {
    delete shared_;
    shared_ = nullptr;
  }
  RawResponse raw(std::string_view path, std::string_view body) {
    const RawResponse response = shared_->post(path, body);
    EXPECT_EQ(response.status, 200) << response.body;
    return response;
  }
  RawClient shared_client() { return shared_->client(); }
  Json post(std::string_view path, std::string_view body) { return raw(path, body).json(); }
  std::vector<Json> lines(std::string_view path, std::string_view body) {
    const RawResponse response = raw(path, body);
    EXPECT_EQ(response.header("content-type"), "application/x-ndjson");
    std::vector<Json> all;
    std::string_view rest = response.body;
    while (!rest.empty()) {
      const size_t end = rest.find('\n');
      all.push_back(json(rest.substr(0, end)));
      rest.remove_prefix(end + 1);
    }
    return all;
  }
  std::string chat_text(int max_tokens) {
    return text_at(
        post("/v1/chat/completions",
             R"({"messages":[{"role":"user","content":"Hi"}],"temperature":0,"max_tokens":)" +
                 std::to_string(max_tokens) + "}"),
        "choices.0.message.content");
  }

 private:
  static inline TinyServer* shared_ = nullptr;
};

TEST_F(OtherApisTest, RespondsAsTheResponsesApiDoes) {
  const Json reply =
      post("/v1/responses", R"({"input":"Hi","temperature":0,"max_output_tokens":8})");
  EXPECT_THAT(text_at(reply, "id"), testing::StartsWith("resp_"));
  EXPECT_EQ(text_at(reply, "object"), "response");
  EXPECT_EQ(text_at(reply, "status"), "incomplete");
  EXPECT_EQ(text_at(reply, "incomplete_details.reason"), "max_output_tokens");
  EXPECT_EQ(text_at(reply, "output.0.type"), "message");
  EXPECT_EQ(text_at(reply, "output.0.content.0.type"), "output_text");
  EXPECT_EQ(text_at(reply, "output.0.content.0.text"), chat_text(8));
  EXPECT_EQ(at(reply, "usage.output_tokens").as_int(), 8);
  EXPECT_TRUE(at(reply, "usage.input_tokens_details.cached_tokens").is_int());
}

TEST_F(OtherApisTest, StreamsResponsesAsNumberedEvents) {
  const RawResponse response =
      raw("/v1/responses", R"({"input":"Hi","temperature":0,"max_output_tokens":8,"stream":true})");
  std::vector<std::string> types;
  std::string text;
  int64_t sequence = 0;
  for (const std::string& event : response.events()) {
    const Json each = json(event);
    EXPECT_EQ(at(each, "sequence_number").as_int(), sequence++);
    types.push_back(text_at(each, "type"));
    if (types.back() == "response.output_text.delta") text += text_at(each, "delta");
  }
  EXPECT_EQ(types.front(), "response.created");
  EXPECT_EQ(types.back(), "response.incomplete");
  EXPECT_THAT(types,
              testing::IsSupersetOf({"response.in_progress", "response.output_item.added",
                                     "response.content_part.added", "response.output_text.delta",
                                     "response.output_text.done", "response.content_part.done",
                                     "response.output_item.done"}));
  EXPECT_EQ(text, chat_text(8));
}

TEST_F(OtherApisTest, TakesAWholeConversationAndItsCalls) {
  const Json reply = post("/v1/responses", R"({"instructions":"be brief","input":[
      {"role":"user","content":[{"type":"input_text","text":"weather?"}]},
      {"type":"function_call","call_id":"c1","name":"weather","arguments":"{}"},
      {"type":"function_call_output","call_id":"c1","output":"sunny"}],
      "tools":[{"type":"function","name":"weather","parameters":{"type":"object",
        "properties":{},"additionalProperties":false}}],
      "tool_choice":"required","parallel_tool_calls":false,"temperature":0})");
  EXPECT_EQ(text_at(reply, "status"), "completed");
  EXPECT_EQ(text_at(reply, "output.0.type"), "function_call");
  EXPECT_EQ(text_at(reply, "output.0.name"), "weather");
  EXPECT_TRUE(json(text_at(reply, "output.0.arguments")).is_object());
}

TEST_F(OtherApisTest, ChatsAsOllamaDoesInLinesByDefault) {
  const auto parts = lines("/api/chat", R"({"model":"tiny:latest",
      "messages":[{"role":"user","content":"Hi"}],"options":{"temperature":0,"num_predict":8}})");
  std::string text;
  for (const Json& part : parts) {
    EXPECT_EQ(text_at(part, "model"), "tiny:latest");
    text += text_at(part, "message.content");
  }
  EXPECT_EQ(text, chat_text(8));
  const Json& last = parts.back();
  EXPECT_EQ(at(last, "done"), Json(true));
  EXPECT_EQ(text_at(last, "done_reason"), "length");
  EXPECT_EQ(at(last, "eval_count").as_int(), 8);
  EXPECT_GT(*at(last, "prompt_eval_count").as_int(), 0);
  EXPECT_GT(*at(last, "total_duration").as_int(), *at(last, "eval_duration").as_int());
  const Json whole = post("/api/chat", R"({"stream":false,"keep_alive":"5m",
      "messages":[{"role":"user","content":"Hi"}],"options":{"temperature":0,"num_predict":8}})");
  EXPECT_EQ(text_at(whole, "message.content"), text);
}

TEST_F(OtherApisTest, GeneratesAsOllamaDoes) {
  const Json reply =
      post("/api/generate",
           R"({"prompt":"Hi","stream":false,"options":{"temperature":0,"num_predict":8}})");
  EXPECT_EQ(text_at(reply, "response"), chat_text(8));
  const Json raw_reply = post(
      "/api/generate",
      R"({"prompt":"Hi","raw":true,"stream":false,"options":{"temperature":0,"num_predict":8}})");
  const Json text = post("/v1/completions", R"({"prompt":"Hi","temperature":0,"max_tokens":8})");
  EXPECT_EQ(text_at(raw_reply, "response"), text_at(text, "choices.0.text"));
  const Json loaded = post("/api/generate", R"({"model":"tiny"})");
  EXPECT_EQ(text_at(loaded, "done_reason"), "load");
}

TEST_F(OtherApisTest, HoldsOllamasAnswersToAFormat) {
  const Json reply =
      post("/api/chat", R"({"messages":[{"role":"user","content":"x"}],"stream":false,
      "format":{"type":"object","properties":{"n":{"type":"boolean"}},"required":["n"],
      "additionalProperties":false},"options":{"num_predict":100}})");
  EXPECT_TRUE(at(json(text_at(reply, "message.content")), "n").is_bool());
}

TEST_F(OtherApisTest, ListsAndShowsAsOllamaDoes) {
  RawClient client = shared_client();
  const Json tags = client.get("/api/tags").json();
  EXPECT_EQ(text_at(tags, "models.0.name"), "tiny:latest");
  EXPECT_EQ(text_at(client.get("/api/ps").json(), "models.0.model"), "tiny:latest");
  EXPECT_NE(text_at(client.get("/api/version").json(), "version"), "");
  const Json show = post("/api/show", R"({"model":"tiny"})");
  EXPECT_EQ(text_at(show, "details.family"), "llama");
  EXPECT_EQ(at(show, "model_info").find("llama.context_length")->as_int(), 512);
}

}  // namespace
}  // namespace quire::server
