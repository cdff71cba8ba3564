#include "loadtest/load_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "formats/json.h"
#include "loadtest/report.h"
#include "loadtest/scripted_server.h"
#include "loadtest/server_counters.h"
#include "loadtest/sse.h"

namespace quire::loadtest {
namespace {

using formats::Json;

bool never() {
  return false;
}

constexpr const char* kHead =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

std::string chunk(const std::string& text) {
  std::ostringstream size;
  size << std::hex << text.size();
  return size.str() + "\r\n" + text + "\r\n";
}

/// Three tokens, the second cut in its middle, and the usage.
std::vector<std::string> three_tokens(const std::string&) {
  const std::string second = R"(data: {"choices":[{"index":0,"delta":{"content":"b"}}]})";
  return {kHead,
          chunk("data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n"),
          chunk("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n: a comment\n\n"),
          chunk(second.substr(0, 20)),
          chunk(second.substr(20) + "\n\n"),
          chunk("data: {\"choices\":[{\"delta\":{\"content\":\"c\"}}]}\r\n\r\n"),
          chunk("data: {\"choices\":[],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":3,"
                "\"prompt_tokens_details\":{\"cached_tokens\":6}}}\n\n"),
          chunk("data: [DONE]\n\n"),
          "0\r\n\r\n"};
}

Target target_of(const ScriptedServer& server) {
  return {.address = parse_address(server.url()).value(), .api_key = "k", .model = "m"};
}

RunResult run(const ScriptedServer& server, const Workload& workload, const Load& load,
              const RunLimits& limits) {
  return run_load(target_of(server), workload, load, limits, never);
}

TEST(LoadRun, RecordsEachTokenOfAStreamedAnswer) {
  ScriptedServer server(three_tokens);
  const RunResult result = run(server, {}, {.concurrency = 1}, {.conversations = 1});
  ASSERT_EQ(result.records.size(), 1u);
  const CallRecord& record = result.records[0];
  EXPECT_EQ(record.error, "");
  EXPECT_TRUE(record.first_token.has_value());
  EXPECT_EQ(record.gaps.size(), 2u);
  EXPECT_EQ(record.output_tokens, 3);
  EXPECT_EQ(record.prompt_tokens, 10);
  EXPECT_EQ(record.cached_tokens, 6);
  EXPECT_LE(record.sent, *record.first_token);
  EXPECT_LE(*record.first_token, record.done);
  const std::string request = server.requests().front();
  EXPECT_NE(request.find("POST /v1/chat/completions HTTP/1.1\r\n"), std::string::npos);
  EXPECT_NE(request.find("Authorization: Bearer k\r\n"), std::string::npos);
}

TEST(LoadRun, AConversationTakesItsAnswersAlong) {
  ScriptedServer server(three_tokens);
  const Workload workload{.shared_words = 5, .prompt_words = 3, .turns = 3};
  const RunResult result = run(server, workload, {.concurrency = 1}, {.conversations = 1});
  EXPECT_EQ(result.records.size(), 3u);
  const std::string last = server.requests().back();
  const Json body = Json::parse(last.substr(last.find("\r\n\r\n") + 4), "a request").value();
  const auto& messages = *body.find("messages")->as_array();
  ASSERT_EQ(messages.size(), 6u);
  EXPECT_EQ(*messages[0].find("role"), Json("system"));
  EXPECT_EQ(*messages[2].find("content"), Json("abc"));
  EXPECT_EQ(*messages[5].find("role"), Json("user"));
}

TEST(LoadRun, ManyAtOnceAreEachRecorded) {
  ScriptedServer server(three_tokens);
  const RunResult closed = run(server, {}, {.concurrency = 8}, {.conversations = 40});
  EXPECT_EQ(closed.records.size(), 40u);
  const RunResult open = run(server, {}, {.concurrency = {}, .rate = 500.0}, {.conversations = 40});
  EXPECT_EQ(open.records.size(), 40u);
  const Summary summary = summarize({.rate = 500.0}, open.records, open.seconds, {});
  EXPECT_EQ(summary.ok, 40);
  EXPECT_DOUBLE_EQ(summary.cached_share(), 0.6);
}

std::string error_of(const ScriptedServer::Script& script) {
  ScriptedServer server(script);
  const RunResult result = run(server, {}, {.concurrency = 1}, {.conversations = 1});
  return result.records.empty() ? "nothing was recorded" : result.records[0].error;
}

TEST(LoadRun, SaysWhyARequestFailed) {
  const auto reply = [](std::string text) {
    return [text = std::move(text)](const std::string&) { return std::vector{text}; };
  };
  EXPECT_EQ(error_of(reply("HTTP/1.1 429 Too Many Requests\r\nContent-Length: 41\r\n\r\n"
                           "{\"error\":{\"message\":\"the queue is full\"}}")),
            "HTTP 429: the queue is full");
  EXPECT_EQ(error_of(reply("")), "the server closed the connection before it answered");
  EXPECT_EQ(error_of(reply("SSH-2.0-OpenSSH_9\r\n")), "the reply is no HTTP");
  EXPECT_EQ(error_of(reply("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\ndata: x")),
            "the reply was cut off");
  EXPECT_EQ(error_of(reply("HTTP/1.1 200 OK\r\n\r\ndata: {\"choices\":[]}\n\n")),
            "the stream ended without [DONE]");
  EXPECT_EQ(error_of(reply("HTTP/1.1 200 OK\r\n\r\ndata: nonsense\n\ndata: [DONE]\n\n")),
            "the stream holds an event that is no JSON");
  EXPECT_EQ(error_of(reply("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")),
            "a chunk of the reply has no size");
  EXPECT_EQ(error_of(reply("HTTP/1.1 200 OK\r\n\r\ndata: {\"error\":{\"code\":1}}\n\n")),
            "{\"code\":1}");
}

TEST(LoadRun, AServerThatIsNotThereIsAnError) {
  std::string url;
  {
    ScriptedServer server(three_tokens);
    url = server.url();
  }
  const Target target{.address = parse_address(url).value(), .model = "m"};
  const RunResult result = run_load(target, {}, {.concurrency = 1}, {.conversations = 1}, never);
  ASSERT_EQ(result.records.size(), 1u);
  EXPECT_NE(result.records[0].error.find("cannot be reached"), std::string::npos);
}

TEST(LoadRun, ASilentServerIsGivenUp) {
  ScriptedServer server([](const std::string&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
    return std::vector<std::string>{};
  });
  const RunResult result =
      run(server, {}, {.concurrency = 1}, {.conversations = 1, .request_seconds = 0.2});
  ASSERT_EQ(result.records.size(), 1u);
  EXPECT_EQ(result.records[0].error, "no answer in time");
}

TEST(LoadRun, StopsWhenItIsToldTo) {
  ScriptedServer server(three_tokens);
  const RunResult result = run_load(target_of(server), {}, {.concurrency = 2},
                                    {.conversations = 1000}, [] { return true; });
  EXPECT_TRUE(result.records.empty());
}

TEST(ServerCounters, AreReadWhereTheServerHasThem) {
  const std::string page =
      "# HELP quire_x y\nquire_num_preemptions_total 3\n"
      "quire_pages_held_by_sequences 12\nquire_pages_held_by_sequences_other 99\n"
      "vllm:a{model=\"m\"} 1.5\nvllm:a{model=\"n\"} 2\nbroken x\n";
  EXPECT_EQ(metric_value(page, "vllm:a"), 3.5);
  EXPECT_EQ(metric_value(page, "broken"), std::nullopt);
  EXPECT_EQ(metric_value(page, "absent"), std::nullopt);
  ScriptedServer server([&](const std::string&) {
    return std::vector<std::string>{"HTTP/1.1 200 OK\r\n\r\n", page};
  });
  const Target target = target_of(server);
  EXPECT_EQ(read_counters(target).preemptions, 3.0);
  EXPECT_EQ(read_counters(target).evicted_pages, std::nullopt);
  EXPECT_EQ(PageWatch(target).peak().value_or(12), 12);
  ScriptedServer without([](const std::string&) {
    return std::vector<std::string>{"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"};
  });
  EXPECT_EQ(read_counters(target_of(without)).pages_in_use, std::nullopt);
}

TEST(HttpAddress, IsReadOrRefused) {
  const Address plain = parse_address("http://localhost:8080/v1/").value();
  EXPECT_EQ(plain.host, "localhost");
  EXPECT_EQ(plain.port, 8080);
  EXPECT_EQ(plain.path, "");
  EXPECT_EQ(parse_address("http://[::1]:99/base").value().path, "/base");
  EXPECT_EQ(parse_address("http://[::1]:99/base").value().host, "::1");
  EXPECT_EQ(parse_address("http://example.com").value().port, 80);
  for (const char* bad : {"", "localhost:80", "https://localhost", "http://", "http://:80",
                          "http://a:0", "http://a:99999", "http://a:8x", "http://[::1",
                          "http://[::1]80", "http://a b", "http://a\r\nX: y"}) {
    EXPECT_FALSE(parse_address(bad).ok()) << bad;
  }
  EXPECT_TRUE(is_loopback(parse_address("http://127.3.2.1").value()));
  EXPECT_TRUE(is_loopback(parse_address("http://[::1]").value()));
  EXPECT_FALSE(is_loopback(parse_address("http://10.0.0.1").value()));
  EXPECT_FALSE(is_loopback(parse_address("http://127.0.0.1.example.com").value()));
}

TEST(Workload, IsTheSameForTheSameSeedAndSharesOnlyWhatItShould) {
  const Workload workload{.shared_words = 20, .prompt_words = 10, .turns = 2, .seed = 3};
  const Conversation a = make_conversation(workload, 0);
  EXPECT_EQ(a.questions, make_conversation(workload, 0).questions);
  EXPECT_EQ(a.system, make_conversation(workload, 1).system);
  EXPECT_NE(a.questions, make_conversation(workload, 1).questions);
  const auto times = arrival_times(10.0, 2000, 1);
  EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
  EXPECT_NEAR(times.back(), 200.0, 20.0);
}

TEST(LoadReport, HasOneRowForEachLoadInEveryFormat) {
  Report report{.url = "http://x", .model = "m"};
  report.objectives.ttft = 1.0;
  CallRecord record{.sent = 0.0, .first_token = 0.25, .done = 1.0, .output_tokens = 4};
  report.loads = {summarize({.concurrency = 2}, std::vector{record}, 1.0, report.objectives),
                  summarize({.concurrency = 4}, std::vector{CallRecord{.error = "HTTP 500"}}, 1.0,
                            report.objectives)};
  const auto lines = [&](ReportFormat format) {
    const std::string text = report_text(report, format);
    return std::count(text.begin(), text.end(), '\n');
  };
  EXPECT_EQ(lines(ReportFormat::kCsv), 3);
  EXPECT_EQ(lines(ReportFormat::kJsonLines), 2);
  EXPECT_NE(report_text(report, ReportFormat::kTable).find("250.0"), std::string::npos);
  EXPECT_NE(report_text(report, ReportFormat::kMarkdown).find("| load |"), std::string::npos);
  EXPECT_NE(report_text(report, ReportFormat::kTable).find("HTTP 500"), std::string::npos);
  const Json json = report_json(report);
  EXPECT_EQ(*json.find("max_concurrency"), Json(2));
  EXPECT_EQ(*(*json.find("loads")->as_array())[0].find("ttft_ms_p50"), Json(250.0));
  EXPECT_TRUE((*json.find("loads")->as_array())[1].find("ttft_ms_p50")->is_null());
  EXPECT_EQ(formats::draw_svg(report_chart(report)).substr(0, 4), "<svg");
}

}  // namespace
}  // namespace quire::loadtest
