// thread_pool.h: a fixed team of threads that shares out short pieces of work.
//
// parallel() runs one function over many chunks and returns when all are done. The caller works
// too; whoever is free takes the next chunk, so a thread whose processor is taken away delays only
// the chunk it holds. Between jobs the workers spin for a moment (a forward pass hands out hundreds
// of jobs a token), then sleep. Which thread runs which chunk is not defined: work must not depend
// on it. Thread rule: one thread at a time may call parallel(); never from inside a chunk.
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

  int32_t num_threads() const { return static_cast<int32_t>(workers_.size()) + 1; }

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

  void run(int32_t num_chunks, Function function, void* context);
  /// Takes chunks of job `generation` until none is left.
  void work_on(uint32_t generation);
  void worker_loop();

  // A job is published by storing {generation, next chunk 0} to ticket_, which is closed while its
  // fields change; a chunk is taken by compare-exchange on it. So a late worker can never take a
  // chunk of one job with the function or the size of another.
  alignas(64) std::atomic<uint64_t> ticket_{0};  // generation << 32 | next chunk
  alignas(64) std::atomic<int32_t> chunks_left_{0};
  alignas(64) std::atomic<Function> function_{nullptr};
  std::atomic<void*> context_{nullptr};
  std::atomic<int32_t> num_chunks_{0};
  alignas(64) std::atomic<uint32_t> generation_{0};  // what idle workers watch
  std::atomic<bool> stopping_{false};
  std::vector<std::jthread> workers_;
};

}  // namespace quire
