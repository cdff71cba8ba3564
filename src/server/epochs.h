// epochs.h: stored conversations that grow too long go on from a shorter view, made in the
// background.
//
// When a stored answer ends above the high watermark, a thread of its own plans a compaction, has
// the new beginning read while nobody else needs the engine (engine::Priority::kBackground), and
// then adds the view to the store. Until that commit requests see the old view whole, after it the
// new one whole; both live on. Whoever changes or goes on with the conversation calls cancel() from
// the store's thread, where the commit happens too: so the two never cross. Any thread but where
// said.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "server/compaction.h"

namespace quire::server {

/// A conversation that may have to be compacted.
struct EpochWish {
  Place place;  // up to which
  std::string tenant, salt;
  Surroundings around;
};

struct EpochCounters {
  std::atomic<int64_t> switched{0};
  std::atomic<int64_t> cancelled{0};    // the conversation changed, or the server stopped
  std::atomic<int64_t> impossible{0};   // the plan found nothing that may go
  std::atomic<int64_t> tokens_read{0};  // of new beginnings
};

class Epochs {
 public:
  /// `serving` must outlive it, and have a store.
  explicit Epochs(Serving& serving);
  ~Epochs();
  Epochs(const Epochs&) = delete;
  Epochs& operator=(const Epochs&) = delete;

  /// Returns at once. Forgets it if too many wait: the next answer asks again.
  void consider(EpochWish wish);
  /// The conversation changes, or is gone on with.
  void cancel(context::ConversationId conversation);
  /// Cancels everything; returns when the thread has ended. Before the engine's loop stops.
  void stop();
  /// Whether nothing waits and nothing is under way.
  bool idle() const;

  const EpochCounters& counters() const { return counters_; }

 private:
  class Listener;
  enum class Outcome : uint8_t { kSwitched, kCancelled, kImpossible };

  void run();
  Outcome run_one(const EpochWish& wish);
  std::optional<History> load(const Place& place);
  bool prefill(const EpochWish& wish, std::vector<TokenId> beginning);
  bool switch_to(const EpochWish& wish, const context::View& view);
  bool is_cancelled() const;

  Serving& serving_;
  EpochCounters counters_;

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable news_;
  std::deque<EpochWish> waiting_;
  std::optional<context::ConversationId> current_;  // that is being compacted
  std::optional<engine::RequestId> reading_;        // its request, while it reads
  bool cancelled_ = false;                          // the current one is
  bool stopping_ = false;

  std::thread thread_;
};

}  // namespace quire::server
