#include "server/tiny_server.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/file_system.h"

namespace quire::server {

TinyServer::TinyServer(const TinyServerOptions& options)
    : options_(options), log_(stderr, LogLevel::kError) {
  ServerOptions server;
  server.port = 0;
  server.serving.names = options.names;
  server.serving.max_output = options.max_output;
  server.serving.most_drafts = options.most_drafts;
  server.serving.allowed_origins = options.origins;
  ApiKeys keys;
  if (!options.keys.empty()) keys = ApiKeys(options.keys, random_secret());
  std::unique_ptr<context::ConversationStore> store;
  if (!options.store.empty()) {
    store =
        context::ConversationStore::open(options.store, context::ConversationStore::system_clock_ms,
                                         std::chrono::milliseconds(50))
            .value();
  }
  server_ = Server::start(server, std::move(keys), log_, std::move(store)).value();
  if (options.loaded) load();
}

TinyServer::~TinyServer() {
  server_->stop(std::chrono::milliseconds(0));
}

void TinyServer::load() {
  engine::ModelOptions load;
  if (!options_.chat_template.empty()) load.chat_template = options_.chat_template;
  model_ =
      engine::Model::load(real_file_system(), QUIRE_TEST_DATA "/tiny/llama_tied", load).value();
  engine::EngineOptions engine;
  engine.memory_bytes = int64_t{256} << 20;
  engine.context_tokens = options_.context;
  engine_ = engine::Engine::create(*model_, engine).value();
  constraints_.emplace(
      engine::JsonConstraints::create(model_->tokenizer(), all_end_tokens(*model_)).value());
  engine::EngineLoopOptions loop;
  loop.scheduler.max_sequences = options_.max_sequences;
  loop.max_queue = options_.max_queue;
  loop_ = std::make_unique<engine::EngineLoop>(*engine_, loop);
  server_->serve({.model = *model_,
                  .engine = *engine_,
                  .loop = *loop_,
                  .constraints = &*constraints_,
                  .template_source = options_.chat_template,
                  .parameters = 1,
                  .weight_types = "1 f32",
                  .max_sequences = options_.max_sequences});
}

int64_t TinyServer::pages_at_idle() {
  for (int i = 0; i < 2000; ++i) {
    const engine::LoopStats stats = loop_->stats();
    if (stats.running == 0 && stats.waiting == 0 && stats.pages.held_by_sequences == 0) return 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return loop_->stats().pages.held_by_sequences;
}

}  // namespace quire::server
