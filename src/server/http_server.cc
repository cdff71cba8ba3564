#include "server/http_server.h"

#include <fmt/format.h>

#include <boost/asio.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_set>

namespace quire::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;
using tcp = asio::ip::tcp;

constexpr size_t kWritePiece = 64 << 10;
constexpr size_t kSocketBuffer = 64 << 10;  // so that an unread stream shows soon
constexpr size_t kPipelinedBytes = 64 << 10;
constexpr size_t kBufferBytes = 256 << 10;
constexpr int kWorkers = 2;
constexpr std::chrono::seconds kLinger{2};

/// Lower case, as HttpRequest has header names.
std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

}  // namespace

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
  asio::thread_pool workers{kWorkers};
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

namespace {

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

}  // namespace

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

  void start() { read_head(); }
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
  void write_some();
  void set_heartbeat();
  void answer_sent();
  void linger();
  void discard();
  void lost();

  HttpServer::Impl& server_;
  tcp::socket socket_;
  boost::beast::flat_buffer buffer_{kBufferBytes};
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
  bool writing_ = false;
};

namespace {

class Exchange : public HttpExchange {
 public:
  Exchange(HttpServer::Impl& server, std::weak_ptr<HttpSession> session, uint64_t answer,
           HttpRequest request)
      : server_(server),
        session_(std::move(session)),
        answer_(answer),
        request_(std::move(request)) {}
  ~Exchange() override {
    tell([answer = answer_](HttpSession& session) { session.abandoned(answer); });
  }

  const HttpRequest& request() const override { return request_; }

  void respond(HttpResponse response) override {
    tell([answer = answer_, r = std::move(response)](HttpSession& session) mutable {
      session.respond(answer, std::move(r));
    });
  }
  void begin_stream(std::string_view content_type, std::string_view heartbeat) override {
    tell([answer = answer_, type = std::string(content_type), beat = std::string(heartbeat)](
             HttpSession& session) { session.begin_stream(answer, type, beat); });
  }
  void write(std::string bytes) override {
    tell([answer = answer_, b = std::move(bytes)](HttpSession& session) mutable {
      session.write(answer, std::move(b));
    });
  }
  void end_stream() override {
    tell([answer = answer_](HttpSession& session) { session.end_stream(answer); });
  }
  void on_close(std::function<void()> callback) override {
    asio::dispatch(server_.io, [&io = server_.io, session = session_, answer = answer_,
                                c = std::move(callback)]() mutable {
      if (const auto alive = session.lock()) return alive->on_close(answer, std::move(c));
      asio::post(io, std::move(c));  // the client is long gone
    });
  }
  void add_header(std::string name, std::string value) override {
    tell([answer = answer_, n = std::move(name),
          v = std::move(value)](HttpSession& session) mutable {
      session.add_header(answer, std::move(n), std::move(v));
    });
  }
  void post(std::function<void()> work) override { asio::post(server_.io, std::move(work)); }

 private:
  /// At once on the I/O thread, else there soon.
  template <class Tell>
  void tell(Tell what) {
    asio::dispatch(server_.io, [session = session_, w = std::move(what)]() mutable {
      if (const auto alive = session.lock()) w(*alive);
    });
  }

  HttpServer::Impl& server_;
  const std::weak_ptr<HttpSession> session_;
  const uint64_t answer_;
  const HttpRequest request_;
};

HttpRequest to_request(http::request<http::string_body> message) {
  HttpRequest request;
  request.method = message.method_string();
  const std::string target(message.target());
  const size_t query = target.find('?');
  request.path = target.substr(0, query);
  if (query != std::string::npos) request.query = target.substr(query + 1);
  for (const auto& field : message) {
    request.headers.emplace_back(lower({field.name_string().data(), field.name_string().size()}),
                                 std::string(field.value()));
  }
  request.body = std::move(message.body());
  return request;
}

}  // namespace

// --- reading -----------------------------------------------------------------------------------

void HttpSession::wait_for_request() {
  if (closed_) return;
  if (server_.draining) return close();
  if (buffer_.size() > 0) return read_head();
  read_deadline_.set(server_.limits.keep_alive, [this] { close(); });
  socket_.async_read_some(buffer_.prepare(4096),
                          [this, self = shared_from_this()](error_code error, size_t bytes) {
                            if (closed_) return;
                            if (error) return close();
                            buffer_.commit(bytes);
                            read_head();
                          });
}

void HttpSession::read_head() {
  parser_.emplace();
  parser_->header_limit(
      static_cast<uint32_t>(server_.limits.request_line_bytes + server_.limits.header_bytes));
  parser_->body_limit(server_.limits.body_bytes);
  read_deadline_.set(server_.limits.header_time,
                     [this] { refuse(408, "the request's head did not arrive in time"); });
  http::async_read_header(socket_, buffer_, *parser_,
                          [this, self = shared_from_this()](error_code error, size_t) {
                            if (closed_ || answering_) return;
                            if (error) return refuse(error);
                            head_read();
                          });
}

void HttpSession::head_read() {
  const auto& message = parser_->get();
  const HttpLimits& limits = server_.limits;
  constexpr size_t kAroundTarget = sizeof("  HTTP/1.1\r\n") - 1;
  const size_t line = message.method_string().size() + message.target().size() + kAroundTarget;
  if (line > limits.request_line_bytes) {
    return refuse(
        414, fmt::format("the request line is longer than {} bytes", limits.request_line_bytes));
  }
  const auto count = static_cast<size_t>(std::distance(message.begin(), message.end()));
  if (count > limits.header_count) {
    return refuse(431, fmt::format("the request has more than {} headers", limits.header_count));
  }
  const size_t hosts = message.count(http::field::host);
  if (hosts > 1 || (hosts == 0 && message.version() >= 11)) {
    return refuse(400, "the request must have exactly one Host header");
  }
  if (!message[http::field::content_encoding].empty()) {
    return refuse(415,
                  "compressed request bodies are not accepted: send it without "
                  "Content-Encoding");
  }
  if (boost::beast::iequals(message[http::field::expect], "100-continue")) {
    // Small enough for any socket's buffer, and nothing else is being written.
    error_code ignored;
    asio::write(socket_, asio::buffer("HTTP/1.1 100 Continue\r\n\r\n", 25), ignored);
  }
  read_body();
}

void HttpSession::read_body() {
  if (parser_->is_done()) return request_read();
  read_deadline_.set(server_.limits.body_idle,
                     [this] { refuse(408, "the request's body stopped arriving"); });
  http::async_read_some(socket_, buffer_, *parser_,
                        [this, self = shared_from_this()](error_code error, size_t) {
                          if (closed_ || answering_) return;
                          if (error) return refuse(error);
                          if (!note_body_bytes()) {
                            return refuse(503, "too much is being received at once; try again");
                          }
                          read_body();
                        });
}

/// Counts what has arrived; false if all connections together hold too much.
bool HttpSession::note_body_bytes() {
  const size_t now = parser_->get().body().size();
  server_.all_bodies_bytes += now - body_bytes_;
  body_bytes_ = now;
  return server_.all_bodies_bytes <= server_.limits.all_bodies_bytes;
}

void HttpSession::request_read() {
  read_deadline_.stop();
  keep_alive_ = parser_->keep_alive() && !server_.draining;
  auto message = parser_->release();
  parser_.reset();
  is_head_ = message.method() == http::verb::head;
  is_chunked_ = message.version() >= 11;
  answering_ = true;
  ++answer_;
  auto exchange = std::make_shared<Exchange>(server_, weak_from_this(), answer_,
                                             to_request(std::move(message)));
  asio::post(server_.workers, [&handler = server_.handler, e = std::move(exchange)] {
    try {
      handler(e);
    } catch (const std::exception& failure) {  // memory ran out
      e->respond({.status = 500, .content_type = "text/plain", .body = failure.what()});
    }
  });
  watch();
}

/// Notices a client that leaves while its request is answered; keeps what it sends ahead.
void HttpSession::watch() {
  if (closed_ || watching_ || buffer_.size() >= kPipelinedBytes) return;
  watching_ = true;
  socket_.async_read_some(buffer_.prepare(4096),
                          [this, self = shared_from_this()](error_code error, size_t bytes) {
                            watching_ = false;
                            if (closed_) return;
                            if (lingering_) return error ? close() : discard();
                            if (!error) buffer_.commit(bytes);
                            if (error && error != asio::error::operation_aborted) return lost();
                            if (std::exchange(want_next_, false)) return wait_for_request();
                            watch();
                          });
}

/// Answers a request that reaches no handler, and closes.
void HttpSession::refuse(int status, std::string message) {
  if (closed_ || answering_) return;
  server_.counters.bad_requests.fetch_add(1, std::memory_order_relaxed);
  error_code ignored;
  socket_.cancel(ignored);
  answering_ = true;
  ++answer_;
  keep_alive_ = false;
  is_head_ = false;
  respond(answer_, server_.error_reply(status, std::move(message)));
}

void HttpSession::refuse(error_code error) {
  if (error == http::error::end_of_stream || error == asio::error::eof ||
      error == http::error::partial_message ||
      error.category() == asio::error::get_system_category()) {
    return close();
  }
  if (error == http::error::body_limit) {
    return refuse(
        413, fmt::format("the request's body is larger than {} bytes", server_.limits.body_bytes));
  }
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return refuse(431, fmt::format("the request's headers are larger than {} bytes",
                                   server_.limits.header_bytes));
  }
  if (error == http::error::bad_version)
    return refuse(505, "only HTTP/1.0 and 1.1 are spoken here");
  refuse(400, fmt::format("this is no valid HTTP request: {}", error.message()));
}

// --- answering ---------------------------------------------------------------------------------

std::string HttpSession::head(int status, std::string_view content_type) {
  std::string out =
      fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\n", status,
                  std::string_view(http::obsolete_reason(http::status(status))), content_type);
  for (const auto& [name, value] : extra_headers_) out += fmt::format("{}: {}\r\n", name, value);
  out += "X-Content-Type-Options: nosniff\r\n";
  out += keep_alive_ ? "Connection: keep-alive\r\n" : "Connection: close\r\n";
  return out;
}

void HttpSession::respond(uint64_t answer, HttpResponse response) {
  if (!answers(answer) || began_) return;
  began_ = complete_ = true;
  for (auto& header : response.headers) extra_headers_.push_back(std::move(header));
  std::string bytes = head(response.status, response.content_type);
  bytes += fmt::format("Content-Length: {}\r\n\r\n", response.body.size());
  if (!is_head_) bytes += response.body;
  send(std::move(bytes));
}

void HttpSession::begin_stream(uint64_t answer, std::string_view content_type,
                               std::string heartbeat) {
  if (!answers(answer) || began_) return;
  began_ = streams_ = true;
  if (!is_chunked_) keep_alive_ = false;
  heartbeat_text_ = std::move(heartbeat);
  std::string bytes = head(200, content_type) + "Cache-Control: no-cache\r\n";
  bytes += is_chunked_ ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n";
  send(std::move(bytes));
  set_heartbeat();
}

std::string HttpSession::framed(std::string bytes) const {
  return is_chunked_ ? fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes) : bytes;
}

void HttpSession::write(uint64_t answer, std::string bytes) {
  if (!answers(answer) || !streams_ || complete_ || bytes.empty()) return;
  if (out_bytes_ > server_.limits.stream_backlog_bytes) {
    server_.counters.stalled_readers.fetch_add(1, std::memory_order_relaxed);
    return lost();
  }
  send(framed(std::move(bytes)));
}

void HttpSession::end_stream(uint64_t answer) {
  if (!answers(answer) || !streams_ || complete_) return;
  complete_ = true;
  if (is_chunked_) {
    send("0\r\n\r\n");
  } else {
    pump();
  }
}

void HttpSession::on_close(uint64_t answer, std::function<void()> callback) {
  if (answers(answer)) {
    on_close_ = std::move(callback);
  } else {
    asio::post(server_.io, std::move(callback));  // it is too late already
  }
}

void HttpSession::add_header(uint64_t answer, std::string name, std::string value) {
  if (answers(answer)) extra_headers_.emplace_back(std::move(name), std::move(value));
}

/// Its exchange is gone: whoever had it has nothing more to say.
void HttpSession::abandoned(uint64_t answer) {
  if (!answers(answer) || complete_) return;
  if (began_) return lost();
  respond(answer, server_.error_reply(500, "the request was dropped"));
}

void HttpSession::send(std::string bytes) {
  out_bytes_ += bytes.size();
  out_.push_back(std::move(bytes));
  pump();
}

void HttpSession::pump() {
  if (closed_ || writing_) return;
  if (out_.empty()) {
    if (complete_) answer_sent();
    return;
  }
  sending_ = std::move(out_.front());
  out_.pop_front();
  while (!out_.empty() && sending_.size() + out_.front().size() <= kWritePiece) {
    sending_ += out_.front();
    out_.pop_front();
  }
  sent_ = 0;
  writing_ = true;
  write_some();
}

void HttpSession::write_some() {
  write_deadline_.set(server_.limits.reader_stall, [this] {
    server_.counters.stalled_readers.fetch_add(1, std::memory_order_relaxed);
    lost();
  });
  const size_t piece = std::min(sending_.size() - sent_, kWritePiece);
  socket_.async_write_some(asio::buffer(sending_.data() + sent_, piece),
                           [this, self = shared_from_this()](error_code error, size_t bytes) {
                             if (closed_) return;
                             if (error) return lost();
                             sent_ += bytes;
                             out_bytes_ -= bytes;
                             if (sent_ < sending_.size()) return write_some();
                             write_deadline_.stop();
                             writing_ = false;
                             set_heartbeat();
                             pump();
                           });
}

void HttpSession::set_heartbeat() {
  if (!streams_ || complete_ || heartbeat_text_.empty()) return;
  heartbeat_.set(server_.limits.heartbeat, [this] {
    if (closed_ || !streams_ || complete_) return;
    if (!writing_) send(framed(heartbeat_text_));
  });
}

/// The whole answer is with the system.
void HttpSession::answer_sent() {
  answering_ = began_ = streams_ = complete_ = false;
  on_close_ = nullptr;
  extra_headers_.clear();
  heartbeat_.stop();
  server_.all_bodies_bytes -= std::exchange(body_bytes_, 0);
  if (!keep_alive_ || server_.draining) return linger();
  if (!watching_) return wait_for_request();
  want_next_ = true;
  error_code ignored;
  socket_.cancel(ignored);
}

/// Reads on for a moment before closing, else what the client still sends would make the system
/// take back what it has not read yet.
void HttpSession::linger() {
  error_code ignored;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
  read_deadline_.set(kLinger, [this] { close(); });
  lingering_ = true;
  if (!watching_) discard();
}

void HttpSession::discard() {
  buffer_.clear();
  socket_.async_read_some(buffer_.prepare(4096),
                          [this, self = shared_from_this()](error_code error, size_t) {
                            if (closed_) return;
                            if (error) return close();
                            discard();
                          });
}

/// The client went away, or was cut off.
void HttpSession::lost() {
  if (closed_) return;
  if (answering_) server_.counters.disconnects.fetch_add(1, std::memory_order_relaxed);
  auto callback = std::exchange(on_close_, nullptr);
  close();
  // Not from within a call of the one who is told.
  if (callback) asio::post(server_.io, std::move(callback));
}

void HttpSession::drain() {
  if (!answering_) close();
}

void HttpSession::close() {
  if (closed_) return;
  closed_ = true;
  read_deadline_.stop();
  write_deadline_.stop();
  heartbeat_.stop();
  on_close_ = nullptr;
  error_code ignored;
  socket_.close(ignored);
  server_.all_bodies_bytes -= std::exchange(body_bytes_, 0);
  server_.forget(shared_from_this());
}

// --- the server --------------------------------------------------------------------------------

void HttpServer::Impl::accept_next() {
  acceptor.async_accept([this](error_code error, tcp::socket socket) {
    if (!acceptor.is_open()) return;
    if (!error) {
      accepted(std::move(socket));
      return accept_next();
    }
    // Out of descriptors, most likely: those of others will be closed.
    retry_accept.expires_after(std::chrono::milliseconds(100));
    retry_accept.async_wait([this](error_code stopped) {
      if (!stopped) accept_next();
    });
  });
}

void HttpServer::Impl::accepted(tcp::socket socket) {
  if (sessions.size() >= limits.connections) {
    counters.refused.fetch_add(1, std::memory_order_relaxed);
    return;  // closes it
  }
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::send_buffer_size(kSocketBuffer), ignored);
  const auto session = std::make_shared<HttpSession>(*this, std::move(socket));
  sessions.insert(session);
  counters.connections.store(static_cast<int64_t>(sessions.size()), std::memory_order_relaxed);
  session->start();
}

void HttpServer::Impl::forget(const std::shared_ptr<HttpSession>& session) {
  sessions.erase(session);
  counters.connections.store(static_cast<int64_t>(sessions.size()), std::memory_order_relaxed);
  if (!draining || !sessions.empty()) return;
  const std::scoped_lock lock(drained_mutex);
  is_drained = true;
  drained.notify_all();
}

HttpServer::HttpServer() : impl_(nullptr) {}

namespace {

Result<std::vector<tcp::endpoint>> resolve(const std::string& host, uint16_t port) {
  // [::1] is how addresses stand in URLs.
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  const std::string name = bracketed ? host.substr(1, host.size() - 2) : host;
  error_code error;
  const auto address = asio::ip::make_address(name, error);
  if (!error) return std::vector{tcp::endpoint(address, port)};
  asio::io_context io;
  tcp::resolver resolver(io);
  const auto found = resolver.resolve(name, std::to_string(port), error);
  std::vector<tcp::endpoint> endpoints;
  for (const auto& entry : found) endpoints.push_back(entry.endpoint());
  if (error || endpoints.empty()) {
    return Error{ErrorCode::kUsage,
                 fmt::format("--host {}: no address of this machine has that name", host)};
  }
  return endpoints;
}

}  // namespace

Result<bool> HttpServer::is_loopback(const std::string& host) {
  QUIRE_TRY(const std::vector<tcp::endpoint> endpoints, resolve(host, 0));
  return std::ranges::all_of(endpoints,
                             [](const auto& endpoint) { return endpoint.address().is_loopback(); });
}

Result<std::unique_ptr<HttpServer>> HttpServer::start(const std::string& host, uint16_t port,
                                                      const HttpLimits& limits, Handler handler,
                                                      ErrorReply error_reply) {
  QUIRE_TRY(const std::vector<tcp::endpoint> endpoints, resolve(host, port));
  std::unique_ptr<HttpServer> server(new HttpServer());
  server->impl_ = std::make_unique<Impl>(limits, server->counters_);
  Impl& impl = *server->impl_;
  impl.handler = std::move(handler);
  impl.error_reply = std::move(error_reply);
  const tcp::endpoint& endpoint = endpoints.front();
  error_code error;
  impl.acceptor.open(endpoint.protocol(), error);
  if (!error) impl.acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) impl.acceptor.bind(endpoint, error);
  if (!error) impl.acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) {
    return Error{ErrorCode::kIo, fmt::format("cannot listen on {} port {}: {}; choose others by "
                                             "--host and --port",
                                             host, port, error.message())};
  }
  impl.port = impl.acceptor.local_endpoint().port();
  impl.accept_next();
  impl.io_thread = std::thread([&impl] { impl.io.run(); });
  return server;
}

uint16_t HttpServer::port() const {
  return impl_->port;
}

void HttpServer::drain(std::chrono::milliseconds grace) {
  asio::post(impl_->io, [this] {
    impl_->draining = true;
    error_code ignored;
    impl_->acceptor.close(ignored);
    impl_->retry_accept.cancel();
    // Closing one changes the set.
    const std::vector<std::shared_ptr<HttpSession>> all(impl_->sessions.begin(),
                                                        impl_->sessions.end());
    for (const auto& session : all) session->drain();
    if (!impl_->sessions.empty()) return;
    const std::scoped_lock lock(impl_->drained_mutex);
    impl_->is_drained = true;
    impl_->drained.notify_all();
  });
  std::unique_lock lock(impl_->drained_mutex);
  impl_->drained.wait_for(lock, grace, [this] { return impl_->is_drained; });
}

HttpServer::~HttpServer() {
  if (!impl_ || !impl_->io_thread.joinable()) return;
  impl_->workers.join();
  asio::post(impl_->io, [this] {
    error_code ignored;
    impl_->acceptor.close(ignored);
    impl_->draining = true;
    const std::vector<std::shared_ptr<HttpSession>> all(impl_->sessions.begin(),
                                                        impl_->sessions.end());
    for (const auto& session : all) session->close();
    impl_->keep_running.reset();
    impl_->io.stop();
  });
  impl_->io_thread.join();
}

}  // namespace quire::server
