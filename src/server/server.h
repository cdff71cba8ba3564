// server.h: the whole server, from its first open port to its last answer.
//
// Listens before the model is loaded, so that /health can say so; serve() makes it ready; stop()
// turns requests away at once and lets running answers end. Thread rule: one thread for all
// members.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "server/epochs.h"
#include "server/http_server.h"
#include "server/serving.h"
#include "server/store_thread.h"

namespace quire::server {

struct ServerOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8080;  // 0: any free one
  ServingOptions serving;
  HttpLimits limits;
};

class Server {
 public:
  /// Listens. kUsage if `host` is not of this machine alone and there is no key; kIo if the address
  /// cannot be had. `log` must outlive it. Responses and conversations are kept in `store`; null:
  /// nothing is kept.
  static Result<std::unique_ptr<Server>> start(
      const ServerOptions& options, ApiKeys keys, EventLog& log,
      std::unique_ptr<context::ConversationStore> store = nullptr);
  /// Stops at once, unless that was done.
  ~Server();

  /// "http://127.0.0.1:8080".
  std::string url() const;
  uint16_t port() const;

  /// Requests are answered from now on. What `backend` refers to must outlive this or the
  /// return of stop().
  void serve(const Backend& backend);
  /// New requests get 503; running ones go on for `grace` at most, then end with an error. Returns
  /// when everything has been sent.
  void stop(std::chrono::milliseconds grace);

 private:
  Server(const ServerOptions& options, ApiKeys keys, EventLog& log);

  const std::string host_;
  Serving serving_;
  std::unique_ptr<HttpServer> http_;    // after what its threads use
  std::unique_ptr<StoreThread> store_;  // goes before it: no exchange may outlive the HttpServer
  std::unique_ptr<Epochs> epochs_;      // goes before what it asks
};

}  // namespace quire::server
