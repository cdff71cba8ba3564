#include "server/server.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/routes.h"

namespace quire::server {
namespace {

// For what is in sockets' buffers when all answers are complete.
constexpr std::chrono::milliseconds kDrainTime{2000};

std::string in_url(const std::string& host) {
  const bool bare_ipv6 = host.find(':') != std::string::npos && !host.starts_with('[');
  return bare_ipv6 ? fmt::format("[{}]", host) : host;
}

}  // namespace

Server::Server(const ServerOptions& options, ApiKeys keys, EventLog& log)
    : host_(options.host), serving_(options.serving, std::move(keys), log) {}

Server::~Server() {
  stop(std::chrono::milliseconds(0));
}

Result<std::unique_ptr<Server>> Server::start(const ServerOptions& options, ApiKeys keys,
                                              EventLog& log,
                                              std::unique_ptr<context::ConversationStore> store) {
  QUIRE_TRY(const bool loopback, HttpServer::is_loopback(options.host));
  if (!loopback && !keys.required()) {
    return Error{ErrorCode::kUsage,
                 fmt::format("--host {} can be reached from other machines: that needs a key; give "
                             "--api-key-file FILE or set QUIRE_API_KEY",
                             options.host)};
  }
  ServerOptions own = options;
  own.serving.allowed_hosts.push_back(options.host);
  std::unique_ptr<Server> server(new Server(own, std::move(keys), log));
  Serving& serving = server->serving_;
  if (store != nullptr) {
    server->store_ = std::make_unique<StoreThread>(std::move(store), log);
    serving.set_store(server->store_.get());
    server->epochs_ = std::make_unique<Epochs>(serving);
    serving.set_epochs(server->epochs_.get());
  }
  QUIRE_TRY(server->http_, HttpServer::start(
                               options.host, options.port, options.limits,
                               [&serving](std::shared_ptr<HttpExchange> exchange) {
                                 dispatch(serving, std::move(exchange));
                               },
                               [](int status, std::string message) {
                                 return to_response(from_status(status, std::move(message)));
                               }));
  serving.set_http_counters(&server->http_->counters());
  return server;
}

std::string Server::url() const {
  return fmt::format("http://{}:{}", in_url(host_), port());
}

uint16_t Server::port() const {
  return http_->port();
}

void Server::serve(const Backend& backend) {
  serving_.set_backend(backend);
}

void Server::stop(std::chrono::milliseconds grace) {
  if (!http_) return;
  serving_.stop();
  if (epochs_) epochs_->stop();
  // Nobody posts to the I/O thread any more when the loop has ended.
  if (const Backend* backend = serving_.backend()) backend->loop.stop(grace);
  http_->drain(kDrainTime);
  if (store_) store_->stop();
  http_.reset();
}

}  // namespace quire::server
