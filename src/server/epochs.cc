#include "server/epochs.h"

#include <algorithm>
#include <future>
#include <utility>

#include "server/serving.h"

namespace quire::server {
namespace {

constexpr size_t kMostWaiting = 64;

/// Asks the store and waits for its answer; nothing if it failed or refused.
template <class T>
std::optional<T> ask_and_wait(StoreThread& store,
                              std::function<Result<T>(ConversationStore&)> question) {
  const auto answer = std::make_shared<std::promise<std::optional<T>>>();
  std::future<std::optional<T>> future = answer->get_future();
  store.ask<T>(std::move(question), [answer](ApiResult<T> result) {
    answer->set_value(result.ok() ? std::optional<T>(*std::move(result)) : std::nullopt);
  });
  return future.get();
}

}  // namespace

/// Tells the waiting thread whether everything was read.
class Epochs::Listener : public engine::RequestListener {
 public:
  explicit Listener(std::promise<bool> read) : read_(std::move(read)) {}
  void on_start(const engine::Reuse&) override {}
  void on_prefill(int64_t, int64_t) override {}
  void on_token(const engine::TokenEvent&) override {}
  void on_done(Result<engine::Generated> answer) override {
    read_.set_value(answer.ok() && answer->finish != engine::FinishReason::kInterrupted);
  }

 private:
  std::promise<bool> read_;
};

Epochs::Epochs(Serving& serving) : serving_(serving), thread_([this] { run(); }) {}

Epochs::~Epochs() {
  stop();
}

void Epochs::consider(EpochWish wish) {
  {
    const std::scoped_lock lock(mutex_);
    if (stopping_ || waiting_.size() >= kMostWaiting) return;
    waiting_.push_back(std::move(wish));
  }
  news_.notify_one();
}

void Epochs::cancel(context::ConversationId conversation) {
  std::optional<engine::RequestId> reading;
  {
    const std::scoped_lock lock(mutex_);
    const auto dropped = std::erase_if(
        waiting_, [&](const EpochWish& wish) { return wish.place.conversation == conversation; });
    counters_.cancelled.fetch_add(static_cast<int64_t>(dropped));
    if (current_ != conversation) return;
    cancelled_ = true;
    reading = reading_;
  }
  if (reading) serving_.backend()->loop.cancel(*reading);
}

void Epochs::stop() {
  std::optional<engine::RequestId> reading;
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = cancelled_ = true;
    waiting_.clear();
    reading = reading_;
  }
  news_.notify_all();
  if (reading) serving_.backend()->loop.cancel(*reading);
  if (thread_.joinable()) thread_.join();
}

bool Epochs::idle() const {
  const std::scoped_lock lock(mutex_);
  return waiting_.empty() && !current_;
}

bool Epochs::is_cancelled() const {
  const std::scoped_lock lock(mutex_);
  return cancelled_;
}

void Epochs::run() {
  for (;;) {
    EpochWish wish;
    {
      std::unique_lock lock(mutex_);
      current_.reset();
      news_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
      if (stopping_) return;
      wish = std::move(waiting_.front());
      waiting_.pop_front();
      current_ = wish.place.conversation;
      cancelled_ = false;
    }
    switch (run_one(wish)) {
      case Outcome::kSwitched:
        counters_.switched.fetch_add(1);
        break;
      case Outcome::kCancelled:
        counters_.cancelled.fetch_add(1);
        break;
      case Outcome::kImpossible:
        counters_.impossible.fetch_add(1);
        break;
    }
  }
}

Epochs::Outcome Epochs::run_one(const EpochWish& wish) {
  const Backend& backend = *serving_.backend();
  const auto history = load(wish.place);
  if (!history || is_cancelled()) return Outcome::kCancelled;
  const auto compaction = compact(backend, wish.around, *history);
  if (!compaction) return Outcome::kImpossible;
  auto beginning = beginning_of(backend, wish.around, compaction->items);
  if (!beginning) return Outcome::kImpossible;
  // Without pages to find again there is nothing to read beforehand.
  const bool reads = backend.engine.shares_prefixes();
  if (reads && !prefill(wish, *std::move(beginning))) return Outcome::kCancelled;
  return switch_to(wish, compaction->view) ? Outcome::kSwitched : Outcome::kCancelled;
}

std::optional<History> Epochs::load(const Place& place) {
  using Loaded = std::optional<History>;
  return ask_and_wait<Loaded>(
             *serving_.store(),
             [place](ConversationStore& store) { return history_at(store, place); })
      .value_or(std::nullopt);
}

/// False if it was cancelled, or the engine has no room for it.
bool Epochs::prefill(const EpochWish& wish, std::vector<TokenId> beginning) {
  const auto count = static_cast<int64_t>(beginning.size());
  engine::Request request;
  request.tenant = wish.tenant;
  request.salt = wish.salt;
  request.prompt = std::move(beginning);
  request.options.max_tokens = 1;  // an engine answers with one token at least
  request.priority = engine::Priority::kBackground;
  std::promise<bool> read;
  std::future<bool> was_read = read.get_future();
  {
    const std::scoped_lock lock(mutex_);
    if (cancelled_) return false;
    const auto id = serving_.backend()->loop.submit(std::move(request),
                                                    std::make_unique<Listener>(std::move(read)));
    if (!id.ok()) return false;
    reading_ = *id;
  }
  const bool done = was_read.get();
  const std::scoped_lock lock(mutex_);
  reading_.reset();
  if (done) counters_.tokens_read.fetch_add(count);
  return done;
}

/// On the store's thread, as all who look at the conversation or change it.
bool Epochs::switch_to(const EpochWish& wish, const context::View& view) {
  return ask_and_wait<bool>(*serving_.store(),
                            [this, &wish, &view](ConversationStore& store) -> Result<bool> {
                              if (is_cancelled()) return false;
                              QUIRE_TRY_VOID(store.add_view(wish.place.conversation, view));
                              return true;
                            })
      .value_or(false);
}

}  // namespace quire::server
