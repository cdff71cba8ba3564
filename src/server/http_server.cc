#include "server/http_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "server/http_session.h"

namespace quire::server {
namespace {

constexpr size_t kSocketBuffer = 64 << 10;  // so that an unread stream shows soon

}  // namespace

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
