// http_server.h: HTTP/1.1 over TCP, asynchronous, with limits on everything a client can send.
//
// One I/O thread serves all connections; a few workers run the handlers, so that a large request
// delays no stream. What exceeds a limit is answered with its status and the connection closed; a
// reader that does not read is cut off. Its sources are the only ones that know Boost. Thread rule:
// start(), drain() and the destructor from one thread; counters from any.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "server/http.h"

namespace quire::server {

struct HttpLimits {
  size_t request_line_bytes = 8 << 10;
  size_t header_count = 64;
  size_t header_bytes = 32 << 10;
  size_t body_bytes = 8 << 20;
  size_t all_bodies_bytes = 256 << 20;  // of requests that are being received or answered
  size_t connections = 4096;
  size_t stream_backlog_bytes = 64 << 10;
  std::chrono::milliseconds header_time{10'000};  // for a request's head, from its first byte
  std::chrono::milliseconds body_idle{15'000};    // between two pieces of its body
  std::chrono::milliseconds keep_alive{75'000};   // between two requests
  std::chrono::milliseconds reader_stall{30'000};
  std::chrono::milliseconds heartbeat{10'000};
};

/// What happened to connections, since the start.
struct HttpCounters {
  std::atomic<int64_t> connections{0};      // open now
  std::atomic<int64_t> refused{0};          // beyond the limit of connections
  std::atomic<int64_t> bad_requests{0};     // that never reached a handler
  std::atomic<int64_t> stalled_readers{0};  // cut off
  std::atomic<int64_t> disconnects{0};      // clients that left before their answer ended
};

class HttpServer {
 public:
  /// Runs on a worker.
  using Handler = std::function<void(std::shared_ptr<HttpExchange>)>;
  /// The whole answer to a request that never reached the handler.
  using ErrorReply = std::function<HttpResponse(int status, std::string message)>;

  /// Listens on `host` (an address or a name) and `port` (0: any free one), and serves until
  /// it is destroyed, which no exchange may outlive. kUsage if the host is none, kIo if the address
  /// cannot be had.
  static Result<std::unique_ptr<HttpServer>> start(const std::string& host, uint16_t port,
                                                   const HttpLimits& limits, Handler handler,
                                                   ErrorReply error_reply);
  /// Drops every connection.
  ~HttpServer();

  uint16_t port() const;
  /// Whether the address that `host` means is one of this machine alone.
  static Result<bool> is_loopback(const std::string& host);

  /// Accepts no further connection and closes idle ones; returns when all answers under way have
  /// been sent, or after `grace`.
  void drain(std::chrono::milliseconds grace);

  const HttpCounters& counters() const { return counters_; }

  struct Impl;  // in the source

 private:
  HttpServer();

  HttpCounters counters_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire::server
