// http_session.h: one connection of an HttpServer, and what all its connections share.
//
// Inside of http_server.h: only its two sources include this, and Boost with it. Reads a request,
// lets it be answered, and reads the next. Thread rule: everything on the server's I/O thread.
#pragma once
#include <boost/asio.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_set>
#include <utility>

#include "server/http_server.h"

namespace quire::server {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;
using tcp = asio::ip::tcp;

class HttpSession;

struct HttpServer::Impl {
  Impl(const HttpLimits& limits_, HttpCounters& counters_) : limits(limits_), counters(counters_) {}

  void accept_next();
  void accepted(tcp::socket socket);
  void forget(const std::shared_ptr<HttpSession>& session);

  const HttpLimits limits;
  HttpCounters& counters;
  Handler handler;
  ErrorReply error_reply;

  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> keep_running{io.get_executor()};
  asio::thread_pool workers{2};
  tcp::acceptor acceptor{io};
  asio::steady_timer retry_accept{io};
  uint16_t port = 0;
  std::thread io_thread;

  // On the I/O thread.
  std::unordered_set<std::shared_ptr<HttpSession>> sessions;
  size_t all_bodies_bytes = 0;
  bool draining = false;

  std::mutex drained_mutex;
  std::condition_variable drained;
  bool is_drained = false;  // guarded by drained_mutex
};

/// A timer whose callback runs only if it was not set anew, stopped or destroyed meanwhile.
class Deadline {
 public:
  explicit Deadline(asio::io_context& io) : timer_(io) {}
  ~Deadline() { ++*generation_; }

  template <class Callback>
  void set(std::chrono::milliseconds time, Callback callback) {
    const uint64_t mine = ++*generation_;
    timer_.expires_after(time);
    timer_.async_wait([mine, now = generation_, call = std::move(callback)](error_code error) {
      if (!error && mine == *now) call();
    });
  }
  void stop() {
    ++*generation_;
    timer_.cancel();
  }

 private:
  asio::steady_timer timer_;
  // Shared with callbacks that are queued already when the timer goes.
  const std::shared_ptr<uint64_t> generation_ = std::make_shared<uint64_t>(0);
};

/// One connection: reads a request, lets it be answered, and reads the next. Everything runs on the
/// I/O thread.
class HttpSession : public std::enable_shared_from_this<HttpSession> {
 public:
  HttpSession(HttpServer::Impl& server, tcp::socket socket)
      : server_(server),
        socket_(std::move(socket)),
        read_deadline_(server.io),
        write_deadline_(server.io),
        heartbeat_(server.io) {}

  void start() {
    error_code ignored;
    // pump() writes what the system takes, and waits where it takes no more.
    socket_.non_blocking(true, ignored);
    read_head();
  }
  /// Closes at once if idle, else when the answer has been sent.
  void drain();
  void close();

  // What exchanges ask for; `answer` tells which request they belong to.
  void respond(uint64_t answer, HttpResponse response);
  void begin_stream(uint64_t answer, std::string_view content_type, std::string heartbeat);
  void write(uint64_t answer, std::string bytes);
  void end_stream(uint64_t answer);
  void on_close(uint64_t answer, std::function<void()> callback);
  void add_header(uint64_t answer, std::string name, std::string value);
  void abandoned(uint64_t answer);

 private:
  using Parser = http::request_parser<http::string_body>;

  // Reading.
  void wait_for_request();
  void read_head();
  void head_read();
  void read_body();
  void request_read();
  bool note_body_bytes();
  void refuse(int status, std::string message);
  void refuse(error_code error);
  void watch();

  // Writing.
  bool answers(uint64_t answer) const { return answering_ && !closed_ && answer == answer_; }
  std::string head(int status, std::string_view content_type);
  void send(std::string bytes);
  std::string framed(std::string bytes) const;
  void pump();
  bool take_next_piece();
  bool write_piece();
  void wait_to_write();
  void set_heartbeat();
  void answer_sent();
  void linger();
  void discard();
  void lost();

  HttpServer::Impl& server_;
  tcp::socket socket_;
  boost::beast::flat_buffer buffer_{256 << 10};
  std::optional<Parser> parser_;
  Deadline read_deadline_, write_deadline_, heartbeat_;
  bool closed_ = false;
  bool watching_ = false;   // a read is under way while a request is answered
  bool lingering_ = false;  // all is said; reads until the client closes
  bool want_next_ = false;  // the answer is out, and the watching read is being called back
  size_t body_bytes_ = 0;   // counted in all_bodies_bytes

  // The request that is being answered.
  uint64_t answer_ = 0;
  bool answering_ = false;
  bool keep_alive_ = false;
  bool is_head_ = false;
  bool is_chunked_ =
      false;            // HTTP/1.1: a stream is sent in chunks; else it ends with the connection
  bool began_ = false;  // its head is on its way
  bool streams_ = false;
  bool complete_ = false;  // nothing will be added to out_
  std::string heartbeat_text_;
  HttpHeaders extra_headers_;
  std::function<void()> on_close_;

  std::deque<std::string> out_;
  size_t out_bytes_ = 0;  // in out_ and of sending_, unsent
  std::string sending_;
  size_t sent_ = 0;
  bool waiting_to_write_ = false;  // until the client has read more
  bool ending_ = false;            // answer_sent() is under way
};

}  // namespace quire::server
