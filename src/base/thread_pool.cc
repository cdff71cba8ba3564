#include "base/thread_pool.h"

#include <immintrin.h>

#include <algorithm>
#include <chrono>

#include "base/check.h"

namespace quire {
namespace {

// Longer than the gaps between the jobs of one forward pass, shorter than a user's patience with
// fans.
constexpr std::chrono::microseconds kSpin{100};

constexpr int32_t kMostChunks = UINT16_MAX;  // of a job, since a run counts them in 16 bits

constexpr uint64_t pack(uint32_t generation, uint32_t begin, uint32_t end) {
  return uint64_t{generation} << 32 | begin << 16 | end;
}
constexpr uint32_t generation_of(uint64_t run) {
  return static_cast<uint32_t>(run >> 32);
}
constexpr uint32_t begin_of(uint64_t run) {
  return static_cast<uint32_t>(run) >> 16;
}
constexpr uint32_t end_of(uint64_t run) {
  return static_cast<uint32_t>(run) & UINT16_MAX;
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

ThreadPool::ThreadPool(int32_t num_threads) : runs_(static_cast<size_t>(num_threads)) {
  QUIRE_CHECK_LE(1, num_threads);
  for (int32_t thread = 1; thread < num_threads; ++thread) {
    workers_.emplace_back([this, thread] { worker_loop(thread); });
  }
}

ThreadPool::~ThreadPool() {
  stopping_.store(true, std::memory_order_release);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
}

void ThreadPool::run(int32_t num_chunks, Function function, void* context) {
  if (num_chunks == 1 || workers_.empty()) {
    for (int32_t chunk = 0; chunk < num_chunks; ++chunk) function(context, chunk);
    return;
  }
  for (int32_t first = 0; first < num_chunks;) {
    const int32_t count = std::min(num_chunks - first, kMostChunks);
    run_job(first, count, function, context);
    first += count;
  }
}

void ThreadPool::run_job(int32_t first_chunk, int32_t num_chunks, Function function,
                         void* context) {
  const uint32_t generation = generation_.load(std::memory_order_relaxed) + 1;
  // Closed before anything of the last job is overwritten: a worker that still holds what it read
  // of a run, and then one of the new values, fails to take a chunk.
  for (Run& run : runs_) run.left.store(pack(generation, 0, 0), std::memory_order_relaxed);
  function_.store(function, std::memory_order_release);
  context_.store(context, std::memory_order_release);
  first_chunk_.store(first_chunk, std::memory_order_release);
  chunks_left_.store(num_chunks, std::memory_order_release);
  const int64_t threads = num_threads();
  for (int64_t t = 0; t < threads; ++t) {
    const auto begin = static_cast<uint32_t>(num_chunks * t / threads);
    const auto end = static_cast<uint32_t>(num_chunks * (t + 1) / threads);
    runs_[static_cast<size_t>(t)].left.store(pack(generation, begin, end),
                                             std::memory_order_release);
  }
  generation_.store(generation, std::memory_order_release);
  generation_.notify_all();

  work_on(generation, 0);
  const auto all_done = [&] { return chunks_left_.load(std::memory_order_acquire) == 0; };
  while (!spin_until(all_done)) std::this_thread::yield();
}

void ThreadPool::work_on(uint32_t generation, int32_t thread) {
  const int32_t threads = num_threads();
  work_off(generation, runs_[static_cast<size_t>(thread)], From::kFront);
  for (int32_t i = 1; i < threads; ++i) {
    work_off(generation, runs_[static_cast<size_t>((thread + i) % threads)], From::kBack);
  }
}

void ThreadPool::work_off(uint32_t generation, Run& run, From side) {
  for (;;) {
    uint64_t left = run.left.load(std::memory_order_acquire);
    const Function function = function_.load(std::memory_order_acquire);
    void* context = context_.load(std::memory_order_acquire);
    const int32_t first_chunk = first_chunk_.load(std::memory_order_acquire);
    const uint32_t begin = begin_of(left);
    const uint32_t end = end_of(left);
    if (generation_of(left) != generation || begin >= end) return;
    const bool front = side == From::kFront;
    const uint64_t rest =
        front ? pack(generation, begin + 1, end) : pack(generation, begin, end - 1);
    // Success proves that the run was open when the three values above were read: they are its
    // own.
    if (!run.left.compare_exchange_weak(left, rest, std::memory_order_acq_rel)) continue;
    function(context, first_chunk + static_cast<int32_t>(front ? begin : end - 1));
    chunks_left_.fetch_sub(1, std::memory_order_acq_rel);
  }
}

void ThreadPool::worker_loop(int32_t thread) {
  _mm_setcsr(0x1F80);  // round to nearest, no flush to zero: a thread inherits its creator's mode
  uint32_t seen = 0;
  for (;;) {
    const auto moved_on = [&] { return generation_.load(std::memory_order_acquire) != seen; };
    if (!spin_until(moved_on)) generation_.wait(seen, std::memory_order_acquire);
    seen = generation_.load(std::memory_order_acquire);
    if (stopping_.load(std::memory_order_acquire)) return;
    work_on(seen, thread);
  }
}

}  // namespace quire
