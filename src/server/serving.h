// serving.h: what all routes share: the model behind them, names, limits, keys, counters.
//
// Exists before the model is loaded: until then, and from stop() on, requests
// are refused with 503.
// Thread rule: set_backend() and stop() from one thread; everything else from any.
#pragma once
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine_loop.h"
#include "engine/json_constraint.h"
#include "engine/model.h"
#include "server/api_keys.h"
#include "server/event_log.h"
#include "server/generation_params.h"
#include "server/http_server.h"
#include "server/metrics.h"
#include "server/store_thread.h"

namespace quire::server {

struct ServingOptions {
  std::vector<std::string> names;  // of the model; the first is its id, never empty
  bool any_model = false;          // answers to every name
  std::optional<int64_t> max_input;
  std::optional<int64_t> max_output;
  int32_t most_drafts = engine::DraftOptions().most;  // guesses of an answer in a step; 0: none
  std::vector<std::string> allowed_hosts;  // names that the Host header may have, besides those of
                                           // this machine; "*": any
  std::vector<std::string> allowed_origins;  // of web pages that may ask; "*": any
};

/// The model and what runs it. All must outlive the Serving that has it.
struct Backend {
  const engine::Model& model;
  const engine::Engine& engine;  // only what is constant in it
  engine::EngineLoop& loop;
  const engine::JsonConstraints* constraints = nullptr;  // null: the vocabulary allows none
  std::string template_source;                           // of the chat template in use
  int64_t parameters = 0;                                // as the files count them; 0: unknown
  std::string weight_types;                              // "210 q4_1, 61 f32"
  int32_t max_sequences = 1;                             // that the loop runs together
  int32_t page_tokens = 64;
};

class Epochs;

class Serving {
 public:
  Serving(ServingOptions options, ApiKeys keys, EventLog& log);

  void set_backend(const Backend& backend);
  /// From now on new requests are refused, and /health says so.
  void stop() { stopping_.store(true); }
  /// nullptr while loading.
  const Backend* backend() const { return loaded() ? &*backend_ : nullptr; }
  bool stopping() const { return stopping_.load(); }
  bool loaded() const { return loaded_.load(std::memory_order_acquire); }

  const ServingOptions& options() const { return options_; }
  const std::string& model_id() const { return options_.names.front(); }
  bool answers_to(std::string_view model) const;
  const ApiKeys& keys() const { return keys_; }
  EventLog& log() const { return log_; }
  Metrics& metrics() { return metrics_; }
  int64_t start_time() const { return start_time_; }  // seconds since 1970
  /// For read_generation(), with a seed of its own. Requires a backend.
  GenerationDefaults defaults();
  /// "chatcmpl-9f1c...": unique in this process and hard to guess.
  std::string new_id(std::string_view prefix);

  /// Where conversations are stored; null: nowhere.
  StoreThread* store() const { return store_; }
  void set_store(StoreThread* store) { store_ = store; }
  /// Where stored conversations are compacted; null without a store.
  Epochs* epochs() const { return epochs_; }
  void set_epochs(Epochs* epochs) { epochs_ = epochs; }

  void set_http_counters(const HttpCounters* counters) { http_ = counters; }
  const HttpCounters* http_counters() const { return http_.load(); }

 private:
  const ServingOptions options_;
  const ApiKeys keys_;
  EventLog& log_;
  Metrics metrics_;
  const int64_t start_time_;
  const std::string secret_;  // that ids and seeds are drawn with
  std::atomic<uint64_t> next_id_{0};
  std::atomic<const HttpCounters*> http_{nullptr};
  std::atomic<StoreThread*> store_{nullptr};
  std::atomic<Epochs*> epochs_{nullptr};
  std::optional<Backend> backend_;
  std::vector<TokenId> end_tokens_;
  std::atomic<bool> loaded_{false};
  std::atomic<bool> stopping_{false};
};

}  // namespace quire::server
