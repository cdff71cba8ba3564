#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace quire {
namespace {

TEST(ThreadPool, RunsEveryChunkExactlyOnce) {
  for (const int32_t threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (int32_t job = 0; job < 2000; ++job) {
      const int32_t chunks = job % 37;
      std::vector<std::atomic<int32_t>> runs(static_cast<size_t>(chunks));
      pool.parallel(chunks, [&](int32_t chunk) { ++runs[static_cast<size_t>(chunk)]; });
      for (const auto& r : runs) ASSERT_EQ(r.load(), 1);
    }
  }
}

TEST(ThreadPool, SeesTheResultsOfEveryChunkWhenItReturns) {
  ThreadPool pool(4);
  std::vector<int64_t> value(64, 0);  // plain memory: TSan watches the hand-over
  for (int64_t job = 1; job <= 500; ++job) {
    pool.parallel(64, [&](int32_t chunk) { value[static_cast<size_t>(chunk)] += job; });
  }
  for (const int64_t v : value) EXPECT_EQ(v, 500 * 501 / 2);
}

TEST(ThreadPool, NeverMixesAJobWithTheOneBefore) {
  // Many short jobs of changing size on more threads than processors: workers are taken off their
  // processor at every point of a hand-over, also between reading a job and taking a chunk of it.
  // (A pool that reused a ticket while its job's fields changed failed here, or hung.)
  for (const int32_t threads : {2, 3, 16}) {
    ThreadPool pool(threads);
    std::vector<std::atomic<int32_t>> runs(40);
    for (int32_t job = 0; job < 100'000; ++job) {
      const int32_t chunks = job % 2 == 0 ? 2 : 40;
      pool.parallel(chunks, [&](int32_t chunk) { ++runs[static_cast<size_t>(chunk)]; });
      for (int32_t chunk = 0; chunk < 40; ++chunk) {
        ASSERT_EQ(runs[static_cast<size_t>(chunk)].exchange(0), chunk < chunks ? 1 : 0) << job;
      }
    }
  }
}

TEST(ThreadPool, RunsMoreChunksThanARunCanCount) {
  ThreadPool pool(3);
  constexpr int32_t kChunks = 3 * UINT16_MAX + 17;
  std::vector<std::atomic<uint8_t>> runs(kChunks);
  pool.parallel(kChunks, [&](int32_t chunk) { ++runs[static_cast<size_t>(chunk)]; });
  int32_t once = 0;
  for (const auto& r : runs) once += r.load() == 1 ? 1 : 0;
  EXPECT_EQ(once, kChunks);
}

TEST(ThreadPool, TakesOverTheChunksOfAThreadThatIsStuck) {
  // Whoever holds the first chunk does not come back before all others have run, wherever they
  // stand: with two threads and without help its own half of them would wait for ever.
  ThreadPool pool(2);
  for (int round = 0; round < 32; ++round) {
    std::atomic<int32_t> others{0};
    pool.parallel(16, [&](int32_t chunk) {
      if (chunk != round % 16) {
        ++others;
        return;
      }
      while (others.load() < 15) std::this_thread::yield();
    });
    EXPECT_EQ(others.load(), 15);
  }
}

TEST(ThreadPool, GivesEachThreadNeighbouringChunks) {
  // Both threads wait at their first chunk until the other has one: so each has its own half.
  ThreadPool pool(2);
  std::vector<std::thread::id> by(8);
  std::atomic<int32_t> arrived{0};
  pool.parallel(8, [&](int32_t chunk) {
    by[static_cast<size_t>(chunk)] = std::this_thread::get_id();
    if (chunk % 4 != 0) return;
    ++arrived;
    while (arrived.load() < 2) std::this_thread::yield();
  });
  EXPECT_NE(by[0], by[4]) << "the first of each half were in flight at once";
}

TEST(ThreadPool, WakesWorkersThatWentToSleep) {
  ThreadPool pool(2);
  for (int round = 0; round < 3; ++round) {
    // Both chunks must be in flight at once for either to end: only a woken worker can do that.
    std::atomic<int32_t> arrived{0};
    pool.parallel(2, [&](int32_t) {
      ++arrived;
      while (arrived.load() < 2) std::this_thread::yield();
    });
    EXPECT_EQ(arrived.load(), 2);
    std::this_thread::sleep_for(
        std::chrono::milliseconds(2));  // beyond the spin: the worker sleeps
  }
}

}  // namespace
}  // namespace quire
