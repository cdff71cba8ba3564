// tiny_server.h: a whole server in this process, on a free port of the loopback, with a tiny model.
//
// Use from one thread.
#pragma once
#include <memory>
#include <string>

#include "server/raw_client.h"
#include "server/server.h"

namespace quire::server {

struct TinyServerOptions {
  std::vector<std::string> keys;
  std::optional<int64_t> max_output;
  int32_t most_drafts = 8;
  int64_t context = 512;  // all that the model was trained for
  std::vector<std::string> names = {"tiny", "org/tiny"};
  bool loaded = true;
  std::vector<std::string> origins;
  int32_t max_sequences = 8;
  int32_t max_queue = 64;
  std::string chat_template;  // instead of the model's own
  std::string store;          // file of conversations; "": nothing is kept
};

class TinyServer {
 public:
  explicit TinyServer(const TinyServerOptions& options = {});
  ~TinyServer();

  RawClient client() const { return RawClient(server_->port()); }
  RawResponse get(std::string_view path) const { return client().get(path); }
  RawResponse post(std::string_view path, std::string_view body) const {
    return client().request("POST", path, body, "Content-Type: application/json\r\n");
  }
  Server& server() { return *server_; }
  engine::EngineLoop& loop() { return *loop_; }
  const engine::Model& model() const { return *model_; }
  void load();
  /// Waits until no request runs; the number of pages that sequences hold then.
  int64_t pages_at_idle();

 private:
  const TinyServerOptions options_;
  EventLog log_;
  std::unique_ptr<engine::Model> model_;
  std::unique_ptr<engine::Engine> engine_;
  std::optional<engine::JsonConstraints> constraints_;
  std::unique_ptr<engine::EngineLoop> loop_;
  std::unique_ptr<Server> server_;  // goes first
};

}  // namespace quire::server
