#include "server/http_session.h"

#include <fmt/format.h>

#include <algorithm>

namespace quire::server {
namespace {

constexpr size_t kWritePiece = 64 << 10;
constexpr size_t kPipelinedBytes = 64 << 10;
constexpr std::chrono::seconds kLinger{2};

/// Lower case, as HttpRequest has header names.
std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

class Exchange : public HttpExchange {
 public:
  Exchange(HttpServer::Impl& server, std::weak_ptr<HttpSession> session, uint64_t answer,
           HttpRequest request)
      : server_(server),
        session_(std::move(session)),
        answer_(answer),
        request_(std::move(request)) {}
  ~Exchange() override {
    // Never at once: what another thread said just before waits for its turn.
    asio::post(server_.io, [session = session_, answer = answer_] {
      if (const auto alive = session.lock()) alive->abandoned(answer);
    });
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
  void post_to_worker(std::function<void()> work) override {
    asio::post(server_.workers, std::move(work));
  }

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

/// Gives the system what there is until it takes no more: what then stays is what the client has
/// not read, however late this thread is.
void HttpSession::pump() {
  if (closed_ || waiting_to_write_) return;
  while (take_next_piece()) {
    if (!write_piece()) return;
    set_heartbeat();
  }
  if (complete_ && !std::exchange(ending_, true)) {
    // Not from within a call of the one who answers.
    asio::post(server_.io, [this, self = shared_from_this()] {
      ending_ = false;
      if (!closed_ && complete_) answer_sent();
    });
  }
}

/// The next bytes to write, small ones put together. False if there are none.
bool HttpSession::take_next_piece() {
  if (sent_ < sending_.size()) return true;
  sending_.clear();
  sent_ = 0;
  while (!out_.empty() &&
         (sending_.empty() || sending_.size() + out_.front().size() <= kWritePiece)) {
    sending_ += out_.front();
    out_.pop_front();
  }
  return !sending_.empty();
}

/// Writes what stands in sending_. False if the system takes no more of it: then pump() goes on
/// when it does, or the client is gone.
bool HttpSession::write_piece() {
  while (sent_ < sending_.size()) {
    error_code error;
    const size_t piece = std::min(sending_.size() - sent_, kWritePiece);
    const size_t bytes = socket_.write_some(asio::buffer(sending_.data() + sent_, piece), error);
    if (error == asio::error::interrupted) continue;
    if (error == asio::error::would_block) {
      wait_to_write();
      return false;
    }
    if (error) {
      lost();
      return false;
    }
    sent_ += bytes;
    out_bytes_ -= bytes;
  }
  return true;
}

void HttpSession::wait_to_write() {
  waiting_to_write_ = true;
  write_deadline_.set(server_.limits.reader_stall, [this] {
    server_.counters.stalled_readers.fetch_add(1, std::memory_order_relaxed);
    lost();
  });
  socket_.async_wait(tcp::socket::wait_write, [this, self = shared_from_this()](error_code error) {
    if (closed_) return;
    if (error) return lost();
    write_deadline_.stop();
    waiting_to_write_ = false;
    pump();
  });
}

void HttpSession::set_heartbeat() {
  if (!streams_ || complete_ || heartbeat_text_.empty()) return;
  heartbeat_.set(server_.limits.heartbeat, [this] {
    if (closed_ || !streams_ || complete_) return;
    if (!waiting_to_write_) send(framed(heartbeat_text_));
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

}  // namespace quire::server
