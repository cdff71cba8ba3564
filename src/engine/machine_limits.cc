#include "engine/machine_limits.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

#include "base/check.h"
#include "kernels/int8_peak.h"

namespace quire::engine {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kBufferBytes = size_t{256} << 20;
constexpr size_t kLeastBytes = size_t{1} << 20;
constexpr size_t kStreams = 4;  // a thread
constexpr int kTries = 3;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// The sum of words that lie in four parts of `words`, read side by side, a cache line at a time.
uint64_t sum_of_streams(std::span<const uint64_t> words) {
  constexpr size_t kLine = 8;      // words
  constexpr size_t kAhead = 1024;  // bytes; the hardware's prefetcher alone does not fill the bus
  const size_t length = words.size() / kStreams / kLine * kLine;
  std::array<uint64_t, kLine> sums{};
  for (size_t i = 0; i < length; i += kLine) {
    for (size_t s = 0; s < kStreams; ++s) {
      const uint64_t* line = words.data() + s * length + i;
      __builtin_prefetch(reinterpret_cast<const char*>(line) + kAhead);
      for (size_t k = 0; k < kLine; ++k) sums[k] += line[k];
    }
  }
  uint64_t sum = 0;
  for (const uint64_t part : sums) sum += part;
  return sum;
}

}  // namespace

Result<ReadProbe> ReadProbe::create() {
  QUIRE_TRY(HugeBuffer buffer, HugeBuffer::allocate(kBufferBytes));
  std::ranges::fill(buffer.as<uint64_t>(), 1);  // so that every page is really there
  return ReadProbe(std::move(buffer));
}

double ReadProbe::rate(ThreadPool& pool, int64_t bytes) {
  const size_t tried = std::clamp<size_t>(static_cast<size_t>(bytes), kLeastBytes, kBufferBytes);
  const std::span<const uint64_t> words = buffer_.as<uint64_t>().first(tried / sizeof(uint64_t));
  const int32_t chunks = pool.num_threads() * 4;
  const size_t chunk_words = words.size() / static_cast<size_t>(chunks);
  std::vector<uint64_t> sums(static_cast<size_t>(chunks));
  double best = 1e9;
  for (int attempt = 0; attempt <= kTries; ++attempt) {
    const Clock::time_point start = Clock::now();
    pool.parallel(chunks, [&](int32_t chunk) {
      const auto c = static_cast<size_t>(chunk);
      sums[c] = sum_of_streams(words.subspan(c * chunk_words, chunk_words));
    });
    if (attempt > 0) best = std::min(best, seconds_since(start));
    for (const uint64_t sum : sums) QUIRE_CHECK_LE(sum, chunk_words);
  }
  return static_cast<double>(chunk_words * static_cast<size_t>(chunks) * sizeof(uint64_t)) / best;
}

double int8_peak(ThreadPool& pool, std::string_view isa) {
  constexpr int64_t kIterations = 200'000;
  double best = 0.0;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    std::vector<int64_t> operations(static_cast<size_t>(pool.num_threads()));
    const Clock::time_point start = Clock::now();
    pool.parallel(pool.num_threads(), [&](int32_t chunk) {
      operations[static_cast<size_t>(chunk)] = kernels::run_int8_peak(isa, kIterations);
    });
    const double seconds = seconds_since(start);
    double sum = 0.0;
    for (const int64_t count : operations) sum += static_cast<double>(count);
    best = std::max(best, sum / seconds);
  }
  return best;
}

double prefill_operations(const model::ModelConfig& c) {
  const int64_t matrices_a_block = model::is_gated(c.activation) ? 3 : 2;
  const int64_t attention = c.hidden * 2 * (c.q_width() + c.kv_width());
  const int64_t dense = matrices_a_block * c.hidden * c.ffn;
  const int64_t experts =
      matrices_a_block * c.hidden *
          (int64_t{c.experts.per_token} * c.experts.ffn + c.experts.shared_ffn) +
      int64_t{c.hidden} * c.experts.count;
  int64_t products = 0;
  for (const model::LayerConfig& layer : c.layers) {
    products += attention + (layer.experts ? experts : dense);
  }
  // Of the last layer only keys and values, and the queries beside them.
  products -= c.hidden * c.q_width() + (c.layers.back().experts ? experts : dense);
  return 2.0 * static_cast<double>(products);
}

}  // namespace quire::engine
