// The whole server on a tiny model, asked over real sockets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "server/routes.h"
#include "server/tiny_server.h"

namespace quire::server {
namespace {

using formats::Json;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;

/// One server for all tests of a suite that leave it as it was.
class ServerTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { shared_ = new TinyServer(); }
  static void TearDownTestSuite() {
    delete shared_;
    shared_ = nullptr;
  }
  TinyServer& server() { return *shared_; }

  Json post(std::string_view path, std::string_view body, int status = 200) {
    const RawResponse response = server().post(path, body);
    EXPECT_EQ(response.status, status) << body << "\n" << response.body;
    return response.json();
  }
  Json chat(std::string_view body, int status = 200) {
    return post("/v1/chat/completions", body, status);
  }
  std::vector<Json> stream(std::string_view path, std::string_view body) {
    const RawResponse response = server().post(path, body);
    EXPECT_EQ(response.status, 200) << response.body;
    EXPECT_EQ(response.header("content-type"), "text/event-stream");
    std::vector<std::string> events = response.events();
    EXPECT_FALSE(events.empty());
    EXPECT_EQ(events.back(), "[DONE]");
    events.pop_back();
    std::vector<Json> chunks;
    for (const std::string& event : events) chunks.push_back(json(event));
    return chunks;
  }

 private:
  static inline TinyServer* shared_ = nullptr;
};

std::string joined(const std::vector<Json>& chunks, std::string_view path) {
  std::string text;
  for (const Json& chunk : chunks) text += text_at(chunk, path);
  return text;
}

constexpr std::string_view kHello =
    R"("messages":[{"role":"user","content":"Hello there"}],"max_tokens":12,"temperature":0)";

std::string body_with(std::string_view more) {
  return "{" + std::string(kHello) + (more.empty() ? "" : ",") + std::string(more) + "}";
}

// --- chat completions --------------------------------------------------------------------------

TEST_F(ServerTest, AnswersAChatWithTheWholeShape) {
  const Json reply = chat(body_with(R"("model":"tiny")"));
  EXPECT_THAT(text_at(reply, "id"), testing::StartsWith("chatcmpl-"));
  EXPECT_EQ(text_at(reply, "object"), "chat.completion");
  EXPECT_EQ(text_at(reply, "model"), "tiny");
  EXPECT_EQ(text_at(reply, "choices.0.message.role"), "assistant");
  EXPECT_TRUE(at(reply, "choices.0.message.content").is_string());
  EXPECT_EQ(text_at(reply, "choices.0.finish_reason"), "length");
  EXPECT_EQ(at(reply, "usage.completion_tokens").as_int(), 12);
  EXPECT_EQ(*at(reply, "usage.total_tokens").as_int(),
            *at(reply, "usage.prompt_tokens").as_int() + 12);
  for (const char* path :
       {"usage.prompt_tokens_details.cached_tokens", "timings.cache_n", "timings.prompt_n",
        "timings.prompt_ms", "timings.predicted_n", "timings.predicted_ms", "timings.draft.tokens",
        "timings.draft.accepted", "reuse.cached_tokens", "context.prompt_tokens"}) {
    EXPECT_TRUE(at(reply, path).is_number()) << path;
  }
  EXPECT_EQ(text_at(reply, "context.status"), "fits");
}

TEST_F(ServerTest, StreamsTheSameTextInChunksOfOneShape) {
  const Json whole = chat(body_with(""));
  const std::vector<Json> chunks =
      stream("/v1/chat/completions",
             body_with(R"("stream":true,"stream_options":{"include_usage":true})"));
  EXPECT_EQ(joined(chunks, "choices.0.delta.content"), text_at(whole, "choices.0.message.content"));
  EXPECT_EQ(text_at(chunks.front(), "choices.0.delta.role"), "assistant");
  EXPECT_EQ(text_at(chunks.front(), "choices.0.delta.content"), "");
  for (const Json& chunk : chunks) {
    EXPECT_EQ(text_at(chunk, "id"), text_at(chunks.front(), "id"));
    EXPECT_EQ(text_at(chunk, "object"), "chat.completion.chunk");
    EXPECT_EQ(at(chunk, "created"), at(chunks.front(), "created"));
  }
  const Json& last = chunks[chunks.size() - 2];
  EXPECT_EQ(text_at(last, "choices.0.finish_reason"), "length");
  EXPECT_EQ(at(last, "choices.0.delta"), Json(Json::Object{}));
  EXPECT_TRUE(at(last, "reuse.cached_tokens").is_number());
  EXPECT_TRUE(at(last, "timings.predicted_n").is_number());
  EXPECT_TRUE(at(chunks.back(), "choices").as_array()->empty());
  EXPECT_EQ(at(chunks.back(), "usage.completion_tokens").as_int(), 12);
}

TEST_F(ServerTest, SendsUsageInAStreamOnlyWhenAsked) {
  for (const Json& chunk : stream("/v1/chat/completions", body_with(R"("stream":true)"))) {
    EXPECT_FALSE(at(chunk, "choices").as_array()->empty());
    EXPECT_TRUE(at(chunk, "usage").is_null());
  }
}

TEST_F(ServerTest, TellsHowFarThePromptIsReadWhenAsked) {
  const std::vector<Json> chunks =
      stream("/v1/chat/completions",
             body_with(R"("stream":true,"return_progress":true,"cache_prompt":false)"));
  std::vector<Json> progress;
  for (const Json& chunk : chunks) {
    if (!at(chunk, "prompt_progress").is_null()) progress.push_back(at(chunk, "prompt_progress"));
  }
  ASSERT_FALSE(progress.empty());
  EXPECT_EQ(at(progress.back(), "processed"), at(progress.back(), "total"));
  EXPECT_EQ(at(progress.back(), "cache").as_int(), 0);
}

TEST_F(ServerTest, GivesSeveralChoicesOfOnePrompt) {
  const Json reply = chat(
      R"({"messages":[{"role":"user","content":"x"}],"n":3,"max_tokens":5,"temperature":1,"seed":7})");
  ASSERT_EQ(at(reply, "choices").as_array()->size(), 3u);
  EXPECT_EQ(at(reply, "choices.2.index").as_int(), 2);
  EXPECT_EQ(at(reply, "usage.completion_tokens").as_int(), 15);
  const std::vector<Json> chunks = stream(
      "/v1/chat/completions",
      R"({"messages":[{"role":"user","content":"x"}],"n":3,"max_tokens":5,"temperature":1,"seed":7,"stream":true})");
  for (int64_t index = 0; index < 3; ++index) {
    std::vector<Json> own;
    for (const Json& chunk : chunks) {
      if (at(chunk, "choices.0.index").as_int() == index) own.push_back(chunk);
    }
    EXPECT_EQ(joined(own, "choices.0.delta.content"),
              text_at(at(reply, "choices"), std::to_string(index) + ".message.content"));
    EXPECT_EQ(text_at(own.back(), "choices.0.finish_reason"), "length");
  }
}

TEST_F(ServerTest, GivesTheSameAnswerForTheSameSeed) {
  const std::string body =
      R"({"messages":[{"role":"user","content":"x"}],"max_tokens":16,"temperature":1.5,"seed":-5})";
  EXPECT_EQ(at(chat(body), "choices"), at(chat(body), "choices"));
}

TEST_F(ServerTest, StopsBeforeAStopStringAndNeverShowsIt) {
  const std::string text = text_at(chat(body_with("")), "choices.0.message.content");
  ASSERT_GT(text.size(), 4u);
  // A plain stretch out of the middle.
  const std::string stop = text.substr(2, 2);
  const std::string expected = text.substr(0, text.find(stop));
  const std::string with_stop = body_with("\"stop\":[" + Json(stop).dump() + "]");
  const Json reply = chat(with_stop);
  EXPECT_EQ(text_at(reply, "choices.0.message.content"), expected);
  EXPECT_EQ(text_at(reply, "choices.0.finish_reason"), "stop");
  const auto chunks =
      stream("/v1/chat/completions", body_with("\"stream\":true,\"stop\":" + Json(stop).dump()));
  EXPECT_EQ(joined(chunks, "choices.0.delta.content"), expected);
}

TEST_F(ServerTest, GivesLogprobsOfEachToken) {
  const Json reply = chat(body_with(R"("logprobs":true,"top_logprobs":3)"));
  const Json& content = at(reply, "choices.0.logprobs.content");
  ASSERT_TRUE(content.is_array());
  ASSERT_EQ(content.as_array()->size(), 12u);
  EXPECT_EQ(at(content, "0.top_logprobs").as_array()->size(), 3u);
  // Greedy takes the likeliest.
  EXPECT_EQ(at(content, "0.logprob"), at(content, "0.top_logprobs.0.logprob"));
  EXPECT_TRUE(at(content, "0.bytes").is_array());
  const auto chunks = stream("/v1/chat/completions", body_with(R"("stream":true,"logprobs":true)"));
  size_t streamed = 0;
  for (const Json& chunk : chunks) {
    const Json& part = at(chunk, "choices.0.logprobs.content");
    if (part.is_array()) streamed += part.as_array()->size();
  }
  EXPECT_EQ(streamed, 12u);
}

TEST_F(ServerTest, ReturnsTokensWhenAsked) {
  const Json reply = chat(body_with(R"("return_tokens":true)"));
  EXPECT_EQ(at(reply, "choices.0.tokens").as_array()->size(), 12u);
}

TEST_F(ServerTest, ObeysLogitBias) {
  const Json reply = chat(body_with(R"("logit_bias":{"65":100},"return_tokens":true)"));
  EXPECT_THAT(*at(reply, "choices.0.tokens").as_array(), Each(Json(65)));
}

TEST_F(ServerTest, SaysHowMuchOfAPromptItKnew) {
  std::string text(150, 'q');
  const std::string body = R"({"messages":[{"role":"user","content":")" + text +
                           R"("}],"max_tokens":2,"temperature":0})";
  chat(body);
  const Json again = chat(body);
  const int64_t prompt = *at(again, "usage.prompt_tokens").as_int();
  EXPECT_EQ(at(again, "usage.prompt_tokens_details.cached_tokens").as_int(), prompt - 1);
  EXPECT_EQ(at(again, "timings.prompt_n").as_int(), 1);
  text[100] = 'z';
  const Json other = chat(R"({"messages":[{"role":"user","content":")" + text +
                          R"("}],"max_tokens":2,"temperature":0})");
  EXPECT_EQ(text_at(other, "reuse.miss.reason"), "token_differs");
  EXPECT_EQ(text_at(other, "reuse.miss.message"), "message[0] user");
  const Json cold = chat(body.substr(0, body.size() - 1) + R"(,"cache_prompt":false})");
  EXPECT_EQ(at(cold, "usage.prompt_tokens_details.cached_tokens").as_int(), 0);
  EXPECT_EQ(at(cold, "choices"), at(again, "choices"));
}

TEST_F(ServerTest, AcceptsPartsDevelopersAndNullContent) {
  chat(R"({"messages":[{"role":"developer","content":"be brief"},
        {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
        {"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function",
          "function":{"name":"f","arguments":"{\"x\":1}"}}]},
        {"role":"tool","tool_call_id":"1","content":"42"}],"max_completion_tokens":2,
        "user":"me","store":true,"metadata":{"a":"b"},"service_tier":"auto","prompt_cache_key":"k"})");
}

TEST_F(ServerTest, SaysTheNumbersWhenAPromptIsTooLong) {
  const std::string text(4000, 'q');
  const Json reply = chat(R"({"messages":[{"role":"user","content":")" + text + R"("}]})", 400);
  EXPECT_EQ(text_at(reply, "error.code"), "context_length_exceeded");
  EXPECT_EQ(text_at(reply, "error.type"), "invalid_request_error");
  EXPECT_THAT(text_at(reply, "error.message"),
              HasSubstr("This model's maximum context length is 512 tokens. However, "));
  EXPECT_GT(*at(reply, "error.n_prompt_tokens").as_int(), 512);
  EXPECT_EQ(at(reply, "error.n_ctx").as_int(), 512);
  const Json sum = chat(R"({"messages":[{"role":"user","content":"x"}],"max_tokens":512})", 400);
  EXPECT_EQ(text_at(sum, "error.code"), "context_length_exceeded");
}

TEST_F(ServerTest, EndsAtTheWindowWhenNoMaximumIsGiven) {
  const Json reply = chat(
      R"({"messages":[{"role":"user","content":"x"}],"ignore_eos":true,"temperature":1,"seed":1})");
  EXPECT_EQ(text_at(reply, "choices.0.finish_reason"), "length");
  EXPECT_EQ(at(reply, "usage.total_tokens").as_int(), 513);  // the last one needs no slot
}

// --- formats and tools -------------------------------------------------------------------------

TEST_F(ServerTest, HoldsAnAnswerToASchema) {
  const Json reply = chat(R"({"messages":[{"role":"user","content":"x"}],"temperature":1,"seed":3,
    "max_tokens":200,"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":
    {"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"],
     "additionalProperties":false}}}})");
  const Json answer = json(text_at(reply, "choices.0.message.content"));
  EXPECT_TRUE(at(answer, "ok").is_bool());
  EXPECT_EQ(text_at(reply, "choices.0.finish_reason"), "stop");
}

constexpr std::string_view kTools =
    R"("tools":[{"type":"function","function":{"name":"weather","description":"of a city",
      "parameters":{"type":"object","properties":{"city":{"type":"string","enum":["Oslo","Rome"]}},
      "required":["city"],"additionalProperties":false}}}])";

TEST_F(ServerTest, CallsAToolWhenItMust) {
  for (const char* choice :
       {R"("required")", R"({"type":"function","function":{"name":"weather"}})"}) {
    const std::string body = body_with(std::string(kTools) + R"(,"tool_choice":)" + choice +
                                       R"(,"parallel_tool_calls":false,"max_tokens":90)");
    const Json reply = chat(body);
    EXPECT_EQ(text_at(reply, "choices.0.finish_reason"), "tool_calls");
    EXPECT_TRUE(at(reply, "choices.0.message.content").is_null());
    ASSERT_TRUE(at(reply, "choices.0.message.tool_calls").is_array());
    ASSERT_EQ(at(reply, "choices.0.message.tool_calls").as_array()->size(), 1u);
    EXPECT_EQ(text_at(reply, "choices.0.message.tool_calls.0.function.name"), "weather");
    const Json arguments =
        json(text_at(reply, "choices.0.message.tool_calls.0.function.arguments"));
    EXPECT_THAT(text_at(arguments, "city"), testing::AnyOf("Oslo", "Rome"));
  }
}

TEST_F(ServerTest, StreamsACallWithItsNameFirst) {
  const std::vector<Json> chunks = stream(
      "/v1/chat/completions",
      body_with(
          std::string(kTools) +
          R"(,"tool_choice":"required","parallel_tool_calls":false,"max_tokens":90,"stream":true)"));
  std::vector<Json> fragments;
  for (const Json& chunk : chunks) {
    const Json& call = at(chunk, "choices.0.delta.tool_calls.0");
    if (!call.is_null()) fragments.push_back(call);
  }
  ASSERT_GE(fragments.size(), 2u);
  EXPECT_EQ(at(fragments.front(), "index").as_int(), 0);
  EXPECT_NE(text_at(fragments.front(), "id"), "");
  EXPECT_EQ(text_at(fragments.front(), "type"), "function");
  EXPECT_EQ(text_at(fragments.front(), "function.name"), "weather");
  EXPECT_TRUE(json(joined(fragments, "function.arguments")).is_object());
  EXPECT_EQ(text_at(chunks.back(), "choices.0.finish_reason"), "tool_calls");
}

// --- text completions --------------------------------------------------------------------------

TEST_F(ServerTest, ContinuesTextTokensAndManyOfEither) {
  const Json text = post("/v1/completions", R"({"prompt":"abc","max_tokens":4,"temperature":0})");
  EXPECT_EQ(text_at(text, "object"), "text_completion");
  const Json ids = post("/tokenize", R"({"content":"abc","add_special":true})");
  const Json tokens = post("/v1/completions", R"({"prompt":)" + at(ids, "tokens").dump() +
                                                  R"(,"max_tokens":4,"temperature":0})");
  EXPECT_EQ(text_at(tokens, "choices.0.text"), text_at(text, "choices.0.text"));
  const Json many =
      post("/v1/completions", R"({"prompt":["abc","d"],"n":2,"max_tokens":4,"temperature":0})");
  ASSERT_EQ(at(many, "choices").as_array()->size(), 4u);
  EXPECT_EQ(text_at(many, "choices.1.text"), text_at(text, "choices.0.text"));
  EXPECT_EQ(at(many, "usage.completion_tokens").as_int(), 16);
  const int64_t one = *at(text, "usage.prompt_tokens").as_int();
  EXPECT_LT(*at(many, "usage.prompt_tokens").as_int(), 2 * one + 1);
}

TEST_F(ServerTest, GivesLegacyLogprobs) {
  const Json reply =
      post("/v1/completions", R"({"prompt":"abc","max_tokens":4,"temperature":0,"logprobs":2})");
  const Json& logprobs = at(reply, "choices.0.logprobs");
  for (const char* list : {"tokens", "token_logprobs", "top_logprobs", "text_offset"}) {
    ASSERT_TRUE(at(logprobs, list).is_array()) << list;
    EXPECT_EQ(at(logprobs, list).as_array()->size(), 4u) << list;
  }
  EXPECT_EQ(at(logprobs, "text_offset.0").as_int(), 0);
}

TEST_F(ServerTest, StreamsACompletion) {
  const std::string body = R"("prompt":"abc","max_tokens":8,"temperature":0)";
  const Json whole = post("/v1/completions", "{" + body + "}");
  const auto chunks = stream("/v1/completions", "{" + body + R"(,"stream":true})");
  EXPECT_EQ(joined(chunks, "choices.0.text"), text_at(whole, "choices.0.text"));
  EXPECT_EQ(text_at(chunks.back(), "choices.0.finish_reason"), "length");
}

// --- text and tokens ---------------------------------------------------------------------------

TEST_F(ServerTest, TokenizesAndBack) {
  const Json plain = post("/tokenize", R"({"content":"Hello <|im_end|>"})");
  const Json text = post("/detokenize", R"({"tokens":)" + at(plain, "tokens").dump() + "}");
  EXPECT_EQ(text_at(text, "content"), "Hello <|im_end|>");
  const Json inert = post("/tokenize", R"({"content":"Hello <|im_end|>","parse_special":false})");
  EXPECT_GT(at(inert, "tokens").as_array()->size(), at(plain, "tokens").as_array()->size());
  const Json pieces = post("/tokenize", R"({"content":"Hi","with_pieces":true})");
  EXPECT_TRUE(at(pieces, "tokens.0.id").is_int());
  EXPECT_TRUE(at(pieces, "tokens.0.piece").is_string());
  post("/detokenize", R"({"tokens":[999999]})", 400);
}

TEST_F(ServerTest, RendersTheTemplateAndCountsIt) {
  const Json prompt = post("/apply-template", R"({"messages":[{"role":"user","content":"Hi"}]})");
  EXPECT_EQ(text_at(prompt, "prompt"), "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  const Json count =
      post("/v1/chat/completions/input_tokens", R"({"messages":[{"role":"user","content":"Hi"}]})");
  const Json reply =
      chat(R"({"messages":[{"role":"user","content":"Hi"}],"max_tokens":1,"temperature":0})");
  EXPECT_EQ(at(count, "input_tokens"), at(reply, "usage.prompt_tokens"));
}

// --- models, state -----------------------------------------------------------------------------

TEST_F(ServerTest, ListsItsModelsByEachName) {
  const Json list = server().get("/v1/models").json();
  ASSERT_EQ(at(list, "data").as_array()->size(), 2u);
  EXPECT_EQ(text_at(list, "data.0.id"), "tiny");
  EXPECT_EQ(at(list, "data.0.max_input_tokens").as_int(), 511);
  EXPECT_TRUE(at(list, "data.0.max_output_tokens").is_int());
  EXPECT_EQ(text_at(server().get("/v1/models/org%2Ftiny").json(), "id"), "org/tiny");
  EXPECT_EQ(server().get("/v1/models/other").status, 404);
  const Json refused = chat(body_with(R"("model":"gpt-4o")"), 404);
  EXPECT_EQ(text_at(refused, "error.code"), "model_not_found");
}

TEST_F(ServerTest, ShowsItsPagesAndReturnsThemAll) {
  chat(body_with(""));
  EXPECT_EQ(server().pages_at_idle(), 0);
  const Json pages = server().get("/debug/pages").json();
  for (const char* name : {"page_tokens", "total", "free", "held_by_sequences", "held_by_tree",
                           "pinned", "spilled", "bytes.held", "bytes.budget"}) {
    EXPECT_TRUE(at(pages, name).is_int()) << name;
  }
  EXPECT_EQ(at(pages, "held_by_sequences").as_int(), 0);
  EXPECT_GT(*at(pages, "held_by_tree").as_int(), 0);
}

TEST_F(ServerTest, CountsWhatItDoes) {
  chat(body_with(""));
  const std::string page = server().get("/metrics").body;
  for (const char* name :
       {"quire_num_requests_running", "vllm:num_requests_waiting{model_name=\"tiny\"} 0",
        "vllm:kv_cache_usage_perc", "vllm:cache_config_info{", "vllm:prompt_tokens_total",
        "vllm:generation_tokens_total", "vllm:prefix_cache_queries_total",
        "vllm:prefix_cache_hits_total", "vllm:num_preemptions_total",
        "vllm:spec_decode_num_draft_tokens_total", "vllm:spec_decode_num_accepted_tokens_total",
        "vllm:request_success_total{model_name=\"tiny\",finished_reason=\"length\"}",
        "vllm:time_to_first_token_seconds_bucket{model_name=\"tiny\",le=\"0.001\"}",
        "vllm:inter_token_latency_seconds_sum", "vllm:e2e_request_latency_seconds_count",
        "vllm:request_queue_time_seconds_count", "vllm:request_prefill_time_seconds_count",
        "vllm:request_decode_time_seconds_count", "quire_pages_held_by_sequences"}) {
    EXPECT_THAT(page, HasSubstr(name));
  }
}

TEST_F(ServerTest, SaysTheSameWithGuessesAndWithout) {
  TinyServer plain({.most_drafts = 0});
  // Few words to choose from, so that there is much to guess.
  const std::string body =
      R"({"messages":[{"role":"user","content":"Hello there"}],"max_tokens":80,"seed":3,)"
      R"("temperature":0.8,"n":2,"logprobs":true,"top_logprobs":2,)"
      R"("logit_bias":{"30":100,"31":100}})";
  const Json guessed = chat(body);
  const Json expected = plain.post("/v1/chat/completions", body).json();
  EXPECT_EQ(at(guessed, "choices"), at(expected, "choices"));
  EXPECT_EQ(at(expected, "timings.draft.tokens").as_int(), 0);
  EXPECT_THAT(plain.get("/metrics").body,
              HasSubstr("vllm:spec_decode_num_draft_tokens_total{model_name=\"tiny\"} 0"));
}

TEST_F(ServerTest, TellsItsProperties) {
  const Json props = server().get("/props").json();
  EXPECT_EQ(at(props, "default_generation_settings.n_ctx").as_int(), 512);
  EXPECT_TRUE(at(props, "default_generation_settings.params.temperature").is_number());
  EXPECT_TRUE(at(props, "chat_template").is_string());
}

TEST(Server, SaysThatItLoadsAndThenThatItIsReady) {
  TinyServer server({.loaded = false});
  const RawResponse loading = server.get("/health");
  EXPECT_EQ(loading.status, 503);
  EXPECT_EQ(text_at(loading.json(), "status"), "loading");
  const RawResponse early = server.post("/v1/completions", "{}");
  EXPECT_EQ(early.status, 503);
  EXPECT_NE(early.header("retry-after"), "");
  server.load();
  EXPECT_EQ(server.get("/health").status, 200);
}

TEST(Server, RefusesToBeReachedFromElsewhereWithoutAKey) {
  EventLog log(stderr, LogLevel::kError);
  ServerOptions options;
  options.host = "0.0.0.0";
  options.port = 0;
  options.serving.names = {"m"};
  const auto open = Server::start(options, {}, log);
  ASSERT_FALSE(open.ok());
  EXPECT_EQ(open.error().code, ErrorCode::kUsage);
  EXPECT_THAT(open.error().message, HasSubstr("key"));
  EXPECT_TRUE(Server::start(options, ApiKeys({"k"}, "secret"), log).ok());
}

TEST(Server, LimitsTheLengthOfAnswers) {
  TinyServer server({.max_output = 5});
  EXPECT_EQ(server.post("/v1/completions", R"({"prompt":"a","max_tokens":6})").status, 400);
  const RawResponse reply =
      server.post("/v1/completions", R"({"prompt":"a","ignore_eos":true,"temperature":0})");
  EXPECT_EQ(at(reply.json(), "usage.completion_tokens").as_int(), 5);
}

TEST(Server, GivesReasoningApartFromTheAnswer) {
  TinyServer server(
      {.chat_template =
           "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.reasoning_content "
           "%}<think>\n{{ m.reasoning_content }}\n</think>\n{% endif %}{{ m.content "
           "}}<|im_end|>\n{% endfor %}{% if add_generation_prompt "
           "%}<|im_start|>assistant\n<think>\n{% endif %}"});
  const std::string body = body_with(R"("ignore_eos":true)");
  const Json reply = server.post("/v1/chat/completions", body).json();
  // The prompt opened the reasoning, and the model never closes it.
  EXPECT_EQ(text_at(reply, "choices.0.message.content"), "");
  const std::string reasoning = text_at(reply, "choices.0.message.reasoning_content");
  EXPECT_NE(reasoning, "");
  EXPECT_GT(*at(reply, "usage.completion_tokens_details.reasoning_tokens").as_int(), 0);
  const RawResponse streamed =
      server.post("/v1/chat/completions", body_with(R"("ignore_eos":true,"stream":true)"));
  std::string told;
  for (const std::string& event : streamed.events()) {
    if (event != "[DONE]") told += text_at(json(event), "choices.0.delta.reasoning_content");
  }
  EXPECT_EQ(told, reasoning);
}

TEST(Server, AnswersTheSameWhoeverElseIsServed) {
  TinyServer server({.max_sequences = 4});
  const auto ask = [&](int i) {
    const std::string body = R"({"prompt":"question )" + std::to_string(i) +
                             R"(","max_tokens":40,"temperature":1,"seed":5,"logprobs":1})";
    return at(server.post("/v1/completions", body).json(), "choices").dump();
  };
  std::vector<std::string> alone;
  for (int i = 0; i < 12; ++i) alone.push_back(ask(i));
  std::vector<std::string> together(alone.size());
  std::vector<std::thread> clients;
  for (int i = 0; i < 12; ++i) {
    clients.emplace_back([&, i] { together[static_cast<size_t>(i)] = ask(i); });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(together, alone);
}

TEST(Server, LetsPagesOfAnOriginThatWasAllowed) {
  TinyServer server({.keys = {"k"}, .origins = {"https://app.example.org"}});
  RawClient c = server.client();
  const RawResponse preflight = c.request("OPTIONS", "/v1/chat/completions", "",
                                          "Origin: https://app.example.org\r\n"
                                          "Access-Control-Request-Method: POST\r\n");
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(preflight.header("access-control-allow-origin"), "https://app.example.org");
  const RawResponse reply = c.request("GET", "/v1/models", "",
                                      "Origin: https://app.example.org\r\n"
                                      "Authorization: Bearer k\r\n");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.header("access-control-allow-origin"), "https://app.example.org");
  EXPECT_EQ(c.request("GET", "/v1/models", "", "Origin: https://other.example.org\r\n").status,
            403);
}

// --- hosts and origins -------------------------------------------------------------------------

TEST_F(ServerTest, ServesNoNameThatOnlyPointsHere) {
  RawClient c = server().client();
  c.send("GET /v1/models HTTP/1.1\r\nHost: evil.example.com\r\n\r\n");
  const auto refused = c.read_response();
  EXPECT_EQ(refused->status, 403);
  EXPECT_THAT(refused->body, HasSubstr("--allowed-host"));
  for (const char* host : {"localhost:1", "127.0.0.1:8080", "[::1]:80"}) {
    c.send(std::string("GET /v1/models HTTP/1.1\r\nHost: ") + host + "\r\n\r\n");
    EXPECT_EQ(c.read_response()->status, 200) << host;
  }
}

TEST_F(ServerTest, ServesNoPageOfAnotherOrigin) {
  RawClient c = server().client();
  EXPECT_EQ(c.request("GET", "/v1/models", "", "Origin: http://evil.example.com\r\n").status, 403);
  EXPECT_EQ(c.request("GET", "/v1/models", "", "Origin: http://localhost\r\n").status, 200);
  const RawResponse preflight = c.request("OPTIONS", "/v1/models", "",
                                          "Origin: http://evil.example.com\r\n"
                                          "Access-Control-Request-Method: GET\r\n");
  EXPECT_EQ(preflight.status, 403);
  EXPECT_EQ(preflight.header("access-control-allow-origin"), "");
}

TEST_F(ServerTest, NamesTheMethodsOfARoute) {
  const RawResponse wrong = server().client().request("DELETE", "/v1/models");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.header("allow"), "GET, HEAD");
  EXPECT_EQ(server().get("/nothing").status, 404);
}

// --- leaving and stopping ----------------------------------------------------------------------

TEST_F(ServerTest, ReturnsEveryPageOfAClientThatLeaves) {
  for (int i = 0; i < 5; ++i) {
    RawClient c = server().client();
    const std::string body =
        R"({"messages":[{"role":"user","content":"x"}],"stream":true,"ignore_eos":true})";
    c.send("POST /v1/chat/completions HTTP/1.1\r\nHost: x.localhost\r\nContent-Length: " +
           std::to_string(body.size()) + "\r\n\r\n" + body);
    EXPECT_TRUE(c.read_until("data: "));
    c.close();
  }
  EXPECT_EQ(server().pages_at_idle(), 0);
}

TEST(Server, EndsStreamsProperlyWhenItStops) {
  TinyServer server;
  RawClient c = server.client();
  const std::string body =
      R"({"messages":[{"role":"user","content":"x"}],"stream":true,"ignore_eos":true,"n":8})";
  c.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body);
  ASSERT_TRUE(c.read_until("data: "));
  server.server().stop(std::chrono::milliseconds(0));
  const auto rest = c.take_until("\r\n0\r\n\r\n");  // its last chunk came
  ASSERT_TRUE(rest.has_value());
  const bool ended = rest->find("data: [DONE]") != std::string::npos;
  const bool failed = rest->find("data: {\"error\":") != std::string::npos;
  EXPECT_NE(ended, failed);
}

TEST(Server, RefusesWithARetryTimeWhatItsQueueCannotHold) {
  TinyServer server({.max_sequences = 1, .max_queue = 0});
  // The second choice finds the first before it.
  const RawResponse refused =
      server.post("/v1/completions", R"({"prompt":"y","n":2,"ignore_eos":true})");
  EXPECT_EQ(refused.status, 429);
  EXPECT_NE(refused.header("retry-after"), "");
  EXPECT_EQ(text_at(refused.json(), "error.code"), "queue_full");
  EXPECT_EQ(server.pages_at_idle(), 0);
}

}  // namespace
}  // namespace quire::server
