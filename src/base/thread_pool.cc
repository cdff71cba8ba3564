#include "base/thread_pool.h"

#include <immintrin.h>

#include <chrono>

#include "base/check.h"

namespace quire {
namespace {

// Longer than the gaps between the jobs of one forward pass, shorter than a user's patience with
// fans.
constexpr std::chrono::microseconds kSpin{100};

/// A ticket of which no chunk can be taken.
constexpr uint64_t closed_ticket(uint32_t generation) {
  return uint64_t{generation} << 32 | UINT32_MAX;
}

/// Spins until `done()` or until kSpin has passed; says whether done.
template <class Done>
bool spin_until(Done&& done) {
  const auto deadline = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 64; ++i) {
      if (done()) return true;
      _mm_pause();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

}  // namespace

ThreadPool::ThreadPool(int32_t num_threads) {
  QUIRE_CHECK_LE(1, num_threads);
  for (int32_t i = 1; i < num_threads; ++i) {
    workers_.emplace_back([this] { worker_loop(); });
  }
}

ThreadPool::~ThreadPool() {
  stopping_.store(true, std::memory_order_release);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
}

void ThreadPool::run(int32_t num_chunks, Function function, void* context) {
  if (num_chunks <= 0) return;
  if (num_chunks == 1 || workers_.empty()) {
    for (int32_t chunk = 0; chunk < num_chunks; ++chunk) function(context, chunk);
    return;
  }
  const uint32_t generation = generation_.load(std::memory_order_relaxed) + 1;
  // Closed before anything of the last job is overwritten: a worker that still holds its ticket and
  // reads one of the new values then fails to take a chunk.
  ticket_.store(closed_ticket(generation), std::memory_order_relaxed);
  function_.store(function, std::memory_order_release);
  context_.store(context, std::memory_order_release);
  num_chunks_.store(num_chunks, std::memory_order_release);
  chunks_left_.store(num_chunks, std::memory_order_release);
  ticket_.store(uint64_t{generation} << 32, std::memory_order_release);
  generation_.store(generation, std::memory_order_release);
  generation_.notify_all();

  work_on(generation);
  const auto all_done = [&] { return chunks_left_.load(std::memory_order_acquire) == 0; };
  while (!spin_until(all_done)) std::this_thread::yield();
}

void ThreadPool::work_on(uint32_t generation) {
  for (;;) {
    uint64_t ticket = ticket_.load(std::memory_order_acquire);
    const Function function = function_.load(std::memory_order_acquire);
    void* context = context_.load(std::memory_order_acquire);
    const int32_t num_chunks = num_chunks_.load(std::memory_order_acquire);
    if (static_cast<uint32_t>(ticket >> 32) != generation) return;
    const auto next = static_cast<uint32_t>(ticket);
    if (next >= static_cast<uint32_t>(num_chunks)) return;
    // Success proves that the ticket was open when the three values above were read: they are its
    // own.
    if (!ticket_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel)) continue;
    function(context, static_cast<int32_t>(next));
    chunks_left_.fetch_sub(1, std::memory_order_acq_rel);
  }
}

void ThreadPool::worker_loop() {
  _mm_setcsr(0x1F80);  // round to nearest, no flush to zero: a thread inherits its creator's mode
  uint32_t seen = 0;
  for (;;) {
    const auto moved_on = [&] { return generation_.load(std::memory_order_acquire) != seen; };
    if (!spin_until(moved_on)) generation_.wait(seen, std::memory_order_acquire);
    seen = generation_.load(std::memory_order_acquire);
    if (stopping_.load(std::memory_order_acquire)) return;
    work_on(seen);
  }
}

}  // namespace quire
