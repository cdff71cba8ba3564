// The HTTP layer alone: limits, framing, streams and readers, with raw sockets.
#include "server/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "server/api_error.h"
#include "server/raw_client.h"

namespace quire::server {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

/// A server whose handler is the test's.
class HttpServerTest : public testing::Test {
 protected:
  void start(HttpServer::Handler handler, HttpLimits limits = {}) {
    server_ = HttpServer::start("127.0.0.1", 0, limits, std::move(handler),
                                [](int status, std::string message) {
                                  return to_response(from_status(status, std::move(message)));
                                })
                  .value();
  }
  /// Answers with the body that came.
  void start_echo(HttpLimits limits = {}) {
    start([](std::shared_ptr<HttpExchange> e) { e->respond({.body = e->request().body}); }, limits);
  }
  RawClient client() { return RawClient(server_->port()); }
  RawResponse answer_to(std::string_view bytes) {
    RawClient c = client();
    c.send(bytes);
    return c.read_response().value_or(RawResponse());
  }
  void wait_until(const std::function<bool()>& done) {
    for (int i = 0; i < 2000 && !done(); ++i) std::this_thread::sleep_for(milliseconds(5));
    EXPECT_TRUE(done());
  }

  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, KeepsAConnectionForTheNextRequest) {
  start_echo();
  RawClient c = client();
  EXPECT_EQ(c.request("POST", "/", "one").body, "one");
  EXPECT_EQ(c.request("POST", "/", "two").body, "two");
  EXPECT_EQ(server_->counters().connections.load(), 1);
}

TEST_F(HttpServerTest, AnswersPipelinedRequestsInOrder) {
  start_echo();
  RawClient c = client();
  std::string both;
  for (const char* body : {"first", "other"}) {
    both += std::string("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n") + body;
  }
  c.send(both);
  EXPECT_EQ(c.read_response()->body, "first");
  EXPECT_EQ(c.read_response()->body, "other");
}

TEST_F(HttpServerTest, ClosesWhenTheClientAsksForIt) {
  start_echo();
  RawClient c = client();
  c.send("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(c.read_response()->header("connection"), "close");
  EXPECT_TRUE(c.is_closed());
}

TEST_F(HttpServerTest, ReadsAChunkedBody) {
  start_echo();
  const auto answer = answer_to(
      "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "
      "chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
  EXPECT_EQ(answer.body, "abcde");
}

TEST_F(HttpServerTest, RefusesARequestWithTwoLengths) {
  start_echo();
  EXPECT_EQ(answer_to("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: "
                      "chunked\r\n\r\n0\r\n\r\n")
                .status,
            400);
  EXPECT_EQ(answer_to("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: "
                      "5\r\n\r\n0\r\n\r\n")
                .status,
            400);
  EXPECT_EQ(answer_to("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: "
                      "6\r\n\r\nabcdef")
                .status,
            400);
}

TEST_F(HttpServerTest, RefusesMalformedHeadsWithAStatusEach) {
  start_echo();
  EXPECT_EQ(answer_to("GET / HTTP/1.1\r\n\r\n").status, 400);                        // no Host
  EXPECT_EQ(answer_to("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n").status, 400);  // two
  EXPECT_EQ(answer_to("\x16\x03\x01 TLS?\r\n\r\n").status, 400);
  EXPECT_EQ(answer_to("GET / HTTP/2.0\r\nHost: x\r\n\r\n").status, 505);
  EXPECT_EQ(answer_to("GET /" + std::string(9000, 'a') + " HTTP/1.1\r\nHost: x\r\n\r\n").status,
            414);
  EXPECT_EQ(
      answer_to("GET / HTTP/1.1\r\nHost: x\r\nA: " + std::string(50'000, 'a') + "\r\n\r\n").status,
      431);
  std::string many = "GET / HTTP/1.1\r\nHost: x\r\n";
  for (int i = 0; i < 70; ++i) many += "H" + std::to_string(i) + ": 1\r\n";
  EXPECT_EQ(answer_to(many + "\r\n").status, 431);
  EXPECT_EQ(answer_to("POST / HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: "
                      "3\r\n\r\nabc")
                .status,
            415);
  EXPECT_GE(server_->counters().bad_requests.load(), 7);
}

TEST_F(HttpServerTest, RefusesABodyBeyondTheLimitBeforeReadingIt) {
  start_echo();
  const auto answer =
      answer_to("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000000\r\n\r\nstart");
  EXPECT_EQ(answer.status, 413);
  EXPECT_THAT(answer.body, HasSubstr("8388608"));
}

TEST_F(HttpServerTest, GivesUpOnAHeadThatDoesNotArrive) {
  HttpLimits limits;
  limits.header_time = milliseconds(50);
  start_echo(limits);
  EXPECT_EQ(answer_to("GET / HTTP/1.1\r\nHo").status, 408);
}

TEST_F(HttpServerTest, GivesUpOnABodyThatStopsArriving) {
  HttpLimits limits;
  limits.body_idle = milliseconds(50);
  start_echo(limits);
  EXPECT_EQ(answer_to("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf").status, 408);
}

TEST_F(HttpServerTest, ClosesAConnectionThatStaysIdle) {
  HttpLimits limits;
  limits.keep_alive = milliseconds(50);
  start_echo(limits);
  RawClient c = client();
  EXPECT_EQ(c.request("POST", "/", "x").status, 200);
  EXPECT_TRUE(c.is_closed());
}

TEST_F(HttpServerTest, RefusesBodiesThatTogetherTakeTooMuch) {
  HttpLimits limits;
  limits.all_bodies_bytes = 1000;
  start_echo(limits);
  EXPECT_EQ(client().request("POST", "/", std::string(2000, 'x')).status, 503);
  EXPECT_EQ(client().request("POST", "/", std::string(900, 'x')).status, 200);
}

TEST_F(HttpServerTest, TellsAClientToSendItsBody) {
  start_echo();
  RawClient c = client();
  c.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_TRUE(c.read_until("100 Continue\r\n\r\n"));
  c.send("ok");
  EXPECT_EQ(c.read_response()->body, "ok");
}

TEST_F(HttpServerTest, SendsNoBodyToHead) {
  start_echo();
  RawClient c = client();
  c.send("HEAD / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
  EXPECT_TRUE(c.read_until("Content-Length: 3\r\n\r\n"));
  c.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nz");
  EXPECT_EQ(c.read_response()->body, "z");
}

TEST_F(HttpServerTest, StreamsInChunksAndKeepsTheConnection) {
  start([](std::shared_ptr<HttpExchange> e) {
    e->begin_stream("text/event-stream", "");
    e->write("data: a\n\n");
    e->write("data: b\n\n");
    e->end_stream();
  });
  RawClient c = client();
  for (int i = 0; i < 2; ++i) {
    const RawResponse answer = c.get("/");
    EXPECT_EQ(answer.header("content-type"), "text/event-stream");
    EXPECT_THAT(answer.events(), testing::ElementsAre("a", "b"));
  }
}

TEST_F(HttpServerTest, StreamsToAnHttp10ClientUntilTheConnectionEnds) {
  start([](std::shared_ptr<HttpExchange> e) {
    e->begin_stream("text/event-stream", "");
    e->write("data: a\n\n");
    e->end_stream();
  });
  const RawResponse answer = answer_to("GET / HTTP/1.0\r\n\r\n");
  EXPECT_EQ(answer.header("transfer-encoding"), "");
  EXPECT_EQ(answer.body, "data: a\n\n");
}

TEST_F(HttpServerTest, SendsHeartbeatsWhileAStreamIsSilent) {
  HttpLimits limits;
  limits.heartbeat = milliseconds(20);
  std::shared_ptr<HttpExchange> held;
  std::mutex mutex;
  start(
      [&](std::shared_ptr<HttpExchange> e) {
        e->begin_stream("text/event-stream", ": still here\n\n");
        const std::scoped_lock lock(mutex);
        held = std::move(e);
      },
      limits);
  RawClient c = client();
  c.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(c.read_until("still here"));
  EXPECT_TRUE(c.read_until("still here"));
  const std::scoped_lock lock(mutex);
  held.reset();
}

TEST_F(HttpServerTest, TellsTheHandlerWhenTheClientLeaves) {
  std::atomic<bool> left = false;
  std::shared_ptr<HttpExchange> held;
  std::atomic<bool> handled = false;
  start([&](std::shared_ptr<HttpExchange> e) {
    e->on_close([&left] { left = true; });
    held = std::move(e);
    handled = true;
  });
  RawClient c = client();
  c.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  wait_until([&] { return handled.load(); });
  EXPECT_FALSE(left.load());
  c.close();
  wait_until([&] { return left.load(); });
  EXPECT_EQ(server_->counters().disconnects.load(), 1);
  held.reset();
}

TEST_F(HttpServerTest, TellsAHandlerThatAsksTooLate) {
  std::atomic<bool> left = false;
  start([&](std::shared_ptr<HttpExchange> e) {
    while (server_->counters().disconnects.load() == 0) std::this_thread::yield();
    e->on_close([&left] { left = true; });
  });
  RawClient c = client();
  c.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  c.close();
  wait_until([&] { return left.load(); });
}

TEST_F(HttpServerTest, CountsAsUnreadOnlyWhatTheSystemDoesNotTake) {
  start([](std::shared_ptr<HttpExchange> e) {
    e->begin_stream("text/event-stream", "");
    // More than a reader may leave unread, at once, and less than the buffers on the way hold.
    for (int i = 0; i < 500; ++i) e->write(std::string(250, 'x'));
    e->end_stream();
  });
  RawClient c(server_->port());
  c.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  const auto reply = c.read_response();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->body.size(), 125'000u);
  EXPECT_EQ(server_->counters().stalled_readers.load(), 0);
}

TEST_F(HttpServerTest, CutsOffAReaderThatLeavesTooMuchUnread) {
  std::atomic<bool> left = false;
  start([&left](std::shared_ptr<HttpExchange> e) {
    e->on_close([&left] { left = true; });
    e->begin_stream("text/event-stream", "");
    // Far more than all buffers on the way hold.
    for (int i = 0; i < 4000; ++i) e->write(std::string(4096, 'x'));
  });
  RawClient c(server_->port(), 4096);
  c.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  wait_until([&] { return left.load(); });
  EXPECT_EQ(server_->counters().stalled_readers.load(), 1);
}

TEST_F(HttpServerTest, CutsOffAReaderThatStopsReading) {
  HttpLimits limits;
  limits.reader_stall = milliseconds(50);
  start([](std::shared_ptr<HttpExchange> e) { e->respond({.body = std::string(16 << 20, 'x')}); },
        limits);
  RawClient c(server_->port(), 4096);
  c.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  wait_until([&] { return server_->counters().stalled_readers.load() == 1; });
}

TEST_F(HttpServerTest, AnswersForAHandlerThatDropsARequest) {
  start([](std::shared_ptr<HttpExchange>) {});
  EXPECT_EQ(client().get("/").status, 500);
}

TEST_F(HttpServerTest, SendsWhatAnotherThreadAnsweredBeforeTheLastHandWasGone) {
  start([](std::shared_ptr<HttpExchange> e) {
    HttpExchange& exchange = *e;
    exchange.post([e = std::move(e)]() mutable {
      std::thread([other = e] { other->respond({.body = "there"}); }).join();
      e.reset();  // on the thread that sends
    });
  });
  const RawResponse reply = client().get("/");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, "there");
}

TEST_F(HttpServerTest, AnswersAfterAllThatWasUnderWayWhenItDrains) {
  std::shared_ptr<HttpExchange> held;
  std::atomic<bool> handled = false;
  start([&](std::shared_ptr<HttpExchange> e) {
    held = std::move(e);
    handled = true;
  });
  RawClient idle = client();
  RawClient c = client();
  c.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  wait_until([&] { return handled.load(); });
  std::thread drain([&] { server_->drain(milliseconds(10'000)); });
  EXPECT_TRUE(idle.is_closed());
  held->respond({.body = "late"});
  held.reset();
  EXPECT_EQ(c.read_response()->body, "late");
  c.close();
  drain.join();
}

TEST(HttpServer, SaysWhyItCannotListen) {
  const auto reply = [](int, std::string) { return HttpResponse(); };
  const auto handler = [](std::shared_ptr<HttpExchange>) {};
  const auto first = HttpServer::start("127.0.0.1", 0, {}, handler, reply);
  const auto second = HttpServer::start("127.0.0.1", first.value()->port(), {}, handler, reply);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.error().message, HasSubstr("--port"));
  EXPECT_FALSE(HttpServer::start("no.such.host.invalid", 0, {}, handler, reply).ok());
}

TEST(HttpServer, KnowsWhichAddressesAreOfThisMachineAlone) {
  EXPECT_TRUE(HttpServer::is_loopback("127.0.0.1").value());
  EXPECT_TRUE(HttpServer::is_loopback("localhost").value());
  EXPECT_TRUE(HttpServer::is_loopback("[::1]").value());
  EXPECT_FALSE(HttpServer::is_loopback("0.0.0.0").value());
  EXPECT_FALSE(HttpServer::is_loopback("::").value());
}

TEST(Http, DecodesPercentEscapesAndLeavesTheRest) {
  EXPECT_EQ(percent_decoded("org%2Fmodel"), "org/model");
  EXPECT_EQ(percent_decoded("100%"), "100%");
  EXPECT_EQ(percent_decoded("%zz+%4"), "%zz+%4");
}

}  // namespace
}  // namespace quire::server
