// thread_pool.h: a fixed team of threads that shares out short pieces of work.
//
// parallel() runs one function over many chunks and returns when all are done. The caller works
// too. Each thread has a run of neighbouring chunks of its own, from the front, so that it streams
// one piece of memory; whoever is done takes chunks from the end of another's run, so that a thread
// whose processor is taken away delays only the chunk it holds. Between jobs the workers spin for a
// moment (a forward pass hands out hundreds of jobs a token), then sleep. Which thread runs which
// chunk is not defined: work must not depend on it. No thread is bound to a processor
// (docs/performance.md says why). Thread rule: one thread at a time may call parallel(); never from
// inside a chunk.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace quire {

class ThreadPool {
 public:
  /// `num_threads` >= 1, the caller included.
  explicit ThreadPool(int32_t num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int32_t num_threads() const { return static_cast<int32_t>(runs_.size()); }

  /// Calls work(chunk) for every chunk in [0, num_chunks), each once.
  template <class Work>
  void parallel(int32_t num_chunks, Work&& work) {
    using Plain = std::remove_reference_t<Work>;
    run(
        num_chunks, [](void* context, int32_t chunk) { (*static_cast<Plain*>(context))(chunk); },
        const_cast<void*>(static_cast<const void*>(&work)));
  }

 private:
  using Function = void (*)(void* context, int32_t chunk);

  /// The chunks that a thread has left: {generation : 32, begin : 16, end : 16}. Its owner takes
  /// the first of them, others the last, all by compare-exchange.
  struct alignas(64) Run {
    std::atomic<uint64_t> left{0};
  };
  enum class From : uint8_t { kFront, kBack };

  void run(int32_t num_chunks, Function function, void* context);
  /// A job of at most 2^16 - 1 chunks, counted from `first_chunk`.
  void run_job(int32_t first_chunk, int32_t num_chunks, Function function, void* context);
  /// Takes chunks of job `generation` until none is left, the thread's own first.
  void work_on(uint32_t generation, int32_t thread);
  void work_off(uint32_t generation, Run& run, From side);
  void worker_loop(int32_t thread);

  // A job is published by filling the runs with its generation; they are closed while its fields
  // change, and a chunk is taken by compare-exchange. So a late worker can never take a chunk of
  // one job with the function of another.
  std::vector<Run> runs_;  // [threads], the caller's first
  alignas(64) std::atomic<int32_t> chunks_left_{0};
  alignas(64) std::atomic<Function> function_{nullptr};
  std::atomic<void*> context_{nullptr};
  std::atomic<int32_t> first_chunk_{0};
  alignas(64) std::atomic<uint32_t> generation_{0};  // what idle workers watch
  std::atomic<bool> stopping_{false};
  std::vector<std::jthread> workers_;
};

}  // namespace quire
