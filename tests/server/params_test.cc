// Parameters alone: what is read, what is refused, and by which name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/api_keys.h"
#include "server/chat_params.h"
#include "server/event_log.h"
#include "server/generation_params.h"
#include "server/host_check.h"
#include "server/metrics.h"
#include "server/raw_client.h"
#include "server/tools_as_text.h"

namespace quire::server {
namespace {

using formats::Json;
using testing::HasSubstr;

GenerationDefaults defaults() {
  GenerationDefaults defaults;
  defaults.vocab = 100;
  defaults.seed = 99;
  defaults.end_tokens = {TokenId{2}};
  return defaults;
}

TEST(GenerationParams, TakesWhatIsAbsentOrNullFromTheDefaults) {
  const Json body = json(R"({"temperature":null,"top_p":0.5})");
  Fields fields(body);
  const GenerationParams params = read_generation(fields, defaults());
  EXPECT_TRUE(fields.ok());
  EXPECT_EQ(params.options.sampling.temperature, engine::SamplingOptions().temperature);
  EXPECT_EQ(params.options.sampling.top_p, 0.5);
  EXPECT_EQ(params.options.sampling.seed, 99u);
  EXPECT_FALSE(params.options.max_tokens.has_value());
  EXPECT_FALSE(params.stream);
}

TEST(GenerationParams, PrefersTheNewNameOfTheMaximum) {
  const Json body = json(R"({"max_tokens":5,"max_completion_tokens":7})");
  Fields fields(body);
  EXPECT_EQ(read_generation(fields, defaults()).options.max_tokens, 7);
}

TEST(GenerationParams, TakesWholeNumbersThatLookLikeFractions) {
  const Json body = json(R"({"max_tokens":5.0,"n":2.0})");
  Fields fields(body);
  const GenerationParams params = read_generation(fields, defaults());
  EXPECT_TRUE(fields.ok());
  EXPECT_EQ(params.options.max_tokens, 5);
  EXPECT_EQ(params.choices, 2);
}

TEST(GenerationParams, ForbidsTheEndWhenAskedToIgnoreIt) {
  const Json body = json(R"({"ignore_eos":true})");
  Fields fields(body);
  const auto bias = read_generation(fields, defaults()).options.sampling.logit_bias;
  ASSERT_EQ(bias.size(), 1u);
  EXPECT_EQ(bias.front().first, TokenId{2});
  EXPECT_LT(bias.front().second, -1e6);
}

TEST(GenerationParams, KeepsTheFirstMistake) {
  const Json body = json(R"({"temperature":9,"n":100})");
  Fields fields(body);
  read_generation(fields, defaults());
  ASSERT_TRUE(fields.error().has_value());
  EXPECT_EQ(fields.error()->param, "temperature");
  EXPECT_THAT(fields.error()->message, HasSubstr("from 0 to 2, not 9"));
}

TEST(ChatParams, JoinsPartsAndCallsADeveloperSystem) {
  const Json body = json(R"({"messages":[{"role":"developer","content":[
      {"type":"text","text":"a"},{"type":"text","text":"b"}]}]})");
  Fields fields(body);
  const ChatParams chat = read_chat(fields);
  EXPECT_EQ(text_at(chat.messages, "0.role"), "system");
  EXPECT_EQ(text_at(chat.messages, "0.content"), "a\nb");
  EXPECT_EQ(chat.tool_choice.kind, ToolChoice::Kind::kNone);
}

TEST(ChatParams, TurnsReasoningOff) {
  const Json body =
      json(R"({"messages":[{"role":"user","content":"x"}],"reasoning_effort":"none"})");
  Fields fields(body);
  EXPECT_EQ(at(read_chat(fields).kwargs, "enable_thinking"), Json(false));
}

TEST(ToolsAsText, PutsDefinitionsCallsAndResultsIntoMessages) {
  const Json messages = json(R"([{"role":"system","content":"Be kind."},
      {"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function",
       "function":{"name":"f","arguments":"{\"x\":1}"}}]},
      {"role":"tool","tool_call_id":"1","content":"42"}])");
  const Json tools = json(R"([{"type":"function","function":{"name":"f"}}])");
  const Json out = with_tools_as_text(messages, tools);
  EXPECT_THAT(text_at(out, "0.content"), testing::StartsWith("Be kind.\n\n"));
  EXPECT_THAT(text_at(out, "0.content"),
              HasSubstr(R"({"type":"function","function":{"name":"f"}})"));
  EXPECT_EQ(text_at(out, "1.content"),
            "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\":1}}\n</tool_call>");
  EXPECT_EQ(text_at(out, "2.role"), "user");
  EXPECT_EQ(text_at(out, "2.content"), "<tool_response>\n42\n</tool_response>");
}

TEST(ParseBody, RefusesWhatIsNoObjectOrTooDeep) {
  EXPECT_FALSE(parse_body("").ok());
  EXPECT_FALSE(parse_body("7").ok());
  EXPECT_FALSE(parse_body("{\"a\":\"\xff\"}").ok());
  const std::string brackets =
      "{\"a\":\"[[[[\",\"b\":" + std::string(63, '[') + std::string(63, ']') + "}";
  EXPECT_TRUE(parse_body(brackets).ok());
  EXPECT_FALSE(parse_body("{\"b\":" + std::string(64, '[') + std::string(64, ']') + "}").ok());
}

HttpRequest request_with(std::string name, std::string value) {
  HttpRequest request;
  request.headers.emplace_back(std::move(name), std::move(value));
  return request;
}

TEST(ApiKeys, TellTenantsApartAndNeverNameTheirKeys) {
  const ApiKeys keys({"alpha", "beta"}, "secret");
  const auto alpha = keys.caller_of(request_with("authorization", "Bearer alpha"));
  const auto beta = keys.caller_of(request_with("x-api-key", "beta"));
  ASSERT_TRUE(alpha && beta);
  EXPECT_NE(alpha->tenant, beta->tenant);
  EXPECT_NE(alpha->owner, beta->owner);
  for (const std::string& name : {alpha->tenant, alpha->owner}) {
    EXPECT_EQ(name.find("alpha"), std::string::npos);
  }
  for (const char* wrong :
       {"Bearer alph", "Bearer alphaa", "Bearer ", "alpha", "Basic alpha", ""}) {
    EXPECT_FALSE(keys.caller_of(request_with("authorization", wrong)).has_value()) << wrong;
  }
  // In another process the cache is another's, and what was stored is still the key's.
  const auto later =
      ApiKeys({"alpha"}, "other").caller_of(request_with("x-api-key", "alpha")).value();
  EXPECT_NE(later.tenant, alpha->tenant);
  EXPECT_EQ(later.owner, alpha->owner);
  EXPECT_EQ(ApiKeys().caller_of(HttpRequest())->tenant, "");
}

TEST(ApiKeys, AreReadOneALine) {
  EXPECT_THAT(parse_api_keys("# ours\n one \r\n\ntwo", "f").value(),
              testing::ElementsAre("one", "two"));
  EXPECT_FALSE(parse_api_keys("\n# nothing\n", "f").ok());
  EXPECT_FALSE(parse_api_keys("two words", "f").ok());
}

TEST(ApiKeys, AreComparedWhole) {
  EXPECT_TRUE(equal_in_constant_time("same", "same"));
  EXPECT_FALSE(equal_in_constant_time("same", "samf"));
  EXPECT_FALSE(equal_in_constant_time("same", "sam"));
  EXPECT_FALSE(equal_in_constant_time("", "x"));
}

TEST(HostCheck, AllowsAddressesAndNamesThatAreListed) {
  ServingOptions options;
  options.allowed_hosts = {"llm.example.org"};
  for (const char* host : {"localhost", "LOCALHOST:80", "app.localhost", "10.1.2.3:8080", "[::1]",
                           "[fe80::1]:80", "llm.example.org:8080"}) {
    EXPECT_FALSE(check_host_and_origin(options, request_with("host", host)).has_value()) << host;
  }
  for (const char* host :
       {"example.org", "llm.example.org.evil.net", "127.0.0.1.evil.net", "", "["}) {
    EXPECT_TRUE(check_host_and_origin(options, request_with("host", host)).has_value()) << host;
  }
}

TEST(Histogram, CountsIntoTheBucketThatHoldsAValue) {
  const double bounds[] = {1.0, 2.0};
  Histogram histogram(bounds);
  for (const double value : {0.5, 1.0, 1.5, 9.0}) histogram.observe(value);
  EXPECT_THAT(histogram.counts(), testing::ElementsAre(2, 1, 1));
  EXPECT_EQ(histogram.sum(), 12.0);
}

TEST(Metrics, PrintCumulativeBucketsUnderBothNames) {
  Metrics metrics;
  metrics.observe_first_token(0.03);
  metrics.count_prompt(10, 4);
  const std::string page = metrics.render("a\"b", {});
  EXPECT_THAT(page, HasSubstr("quire_time_to_first_token_seconds_bucket{le=\"0.02\"} 0\n"));
  EXPECT_THAT(page, HasSubstr("quire_time_to_first_token_seconds_bucket{le=\"0.04\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("vllm:prefix_cache_hits_total{model_name=\"a\\\"b\"} 4\n"));
  EXPECT_THAT(page, HasSubstr("le=\"2560\"} 1\n"));
}

TEST(EventLog, QuotesWhatCouldBeTakenForAnotherField) {
  char text[4096] = {};
  std::FILE* stream = fmemopen(text, sizeof(text), "w");
  EventLog log(stream, LogLevel::kInfo);
  log.write(LogLevel::kInfo, "reply", {{"plain", "a-b"}, {"odd", "a b\n\"c\" d=1"}});
  log.write(LogLevel::kDebug, "hidden", {});
  std::fclose(stream);
  EXPECT_THAT(text, HasSubstr(R"( info reply plain=a-b odd="a b\x0a\"c\" d=1")"));
  EXPECT_THAT(text, testing::Not(HasSubstr("hidden")));
}

}  // namespace
}  // namespace quire::server
