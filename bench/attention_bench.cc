// attention_bench: milliseconds of attention for SmolLM2-135M: 30 layers, 9 query heads on 3 kv
// heads of 64 dimensions, f16 pages.
//
//   quire_attention_bench [scalar|avx2|avx512] [rounds] [setting: decode, few, prefill]
//
// decode: one token at the depth, split by split as the model divides it among threads, then
// merged; few: so many rows in the same way, as of a prompt that is read beside answers. prefill: a
// chunk of 512 rows at the depth, in blocks of 64 rows. Median and fastest of the rounds, which go
// through all settings in turn; a plain read of the same K and V is the floor for decode.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <random>
#include <string_view>
#include <vector>

#include "base/huge_buffer.h"
#include "base/thread_pool.h"
#include "kernels/kernel_set.h"

namespace quire::kernels {
namespace {

constexpr KvGroupShape kShape{.num_layers = 30, .num_kv_heads = 3, .head_dim = 64};
constexpr int32_t kNumHeads = 9;
constexpr int32_t kGroup = kNumHeads / kShape.num_kv_heads;
constexpr int64_t kWidth = int64_t{kNumHeads} * kShape.head_dim;
constexpr int32_t kBlockRows = 64;

double now_ms() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(now).count();
}

/// A sequence of `num_tokens` whose pages hold random numbers.
class Sequence {
 public:
  explicit Sequence(int32_t num_tokens) {
    const int32_t num_pages = (num_tokens + kPageSlots - 1) / kPageSlots;
    const auto bytes = static_cast<size_t>(num_pages * kShape.page_bytes());
    memory_ = HugeBuffer::allocate(bytes).value();
    std::mt19937 random(1);
    for (uint16_t& number : memory_.as<uint16_t>()) {
      number = static_cast<uint16_t>(0x3000 + (random() & 0x8BFF));  // +-0.125 to 2
    }
    for (int32_t i = 0; i < num_pages; ++i) {
      pages_.push_back({.page = memory_.data() + i * kShape.page_bytes(),
                        .stored_base = i * kPageSlots,
                        .logical_base = i * kPageSlots,
                        .end = kPageSlots});
    }
    view_ = {.shape = kShape, .pages = pages_, .window = 0};
  }

  const PagedKvView* view() const { return &view_; }

  /// Reads what one token's attention reads of `layer` and `kv_head`.
  uint64_t read_all(int32_t layer, int32_t kv_head, int64_t first, int64_t last) const {
    uint64_t sum = 0;
    for (int64_t i = first; i < last; ++i) {
      const std::byte* plane = pages_[static_cast<size_t>(i)].page;
      const auto* words =
          reinterpret_cast<const uint64_t*>(plane + kShape.key_offset(layer, kv_head));
      const int64_t count = (kShape.key_plane_bytes() + kShape.value_plane_bytes()) / 8;
      for (int64_t w = 0; w < count; ++w) sum += words[w];
    }
    return sum;
  }
  int64_t num_pages() const { return static_cast<int64_t>(pages_.size()); }

 private:
  HugeBuffer memory_;
  std::vector<PageSpan> pages_;
  PagedKvView view_;
};

/// Queries, results and partial results for a chunk of rows.
class Job {
 public:
  Job(const KernelSet& set, const Sequence& sequence, int32_t depth, int32_t rows)
      : set_(set), sequence_(sequence), depth_(depth), rows_(rows) {
    std::mt19937 random(2);
    std::normal_distribution<float> normal;
    q_.resize(static_cast<size_t>(rows * kWidth));
    for (float& number : q_) number = normal(random);
    out_.resize(q_.size());
    num_splits_ = (depth + rows - 1) / kSplitTokens + 1;
    partials_.resize(static_cast<size_t>(kShape.num_kv_heads * num_splits_ * partial_floats()));
  }

  void by_splits(ThreadPool& pool) {
    const int64_t row_floats = kGroup * attention_partial_floats(kShape.head_dim);
    for (int32_t layer = 0; layer < kShape.num_layers; ++layer) {
      const AttentionArgs args = args_of(layer);
      pool.parallel(kShape.num_kv_heads * num_splits_, [&](int32_t task) {
        set_.attention_split(args, task / num_splits_, 0, rows_, task % num_splits_,
                             partials_.data() + task * partial_floats());
      });
      pool.parallel(kShape.num_kv_heads * rows_, [&](int32_t task) {
        const int32_t head = task / rows_;
        const int32_t row = task % rows_;
        set_.attention_merge(
            args, head, row, num_splits_,
            partials_.data() + head * num_splits_ * partial_floats() + row * row_floats,
            partial_floats());
      });
    }
  }

  void prefill(ThreadPool& pool) {
    const int32_t blocks = (rows_ + kBlockRows - 1) / kBlockRows;
    for (int32_t layer = 0; layer < kShape.num_layers; ++layer) {
      const AttentionArgs args = args_of(layer);
      pool.parallel(kShape.num_kv_heads * blocks, [&](int32_t task) {
        const int64_t row = int64_t{kBlockRows} * (blocks - 1 - task % blocks);  // longest first
        set_.attention(args, task / blocks, row, std::min<int64_t>(rows_, row + kBlockRows));
      });
    }
  }

  void read(ThreadPool& pool) {
    for (int32_t layer = 0; layer < kShape.num_layers; ++layer) {
      pool.parallel(kShape.num_kv_heads * num_splits_, [&](int32_t task) {
        const int64_t first = int64_t{task % num_splits_} * kSplitPages;
        const int64_t last = std::min(first + kSplitPages, sequence_.num_pages());
        const uint64_t sum = sequence_.read_all(layer, task / num_splits_, first, last);
        partials_[static_cast<size_t>(task * partial_floats())] = static_cast<float>(sum & 1);
      });
    }
  }

 private:
  /// Of one task: all rows of a split.
  int64_t partial_floats() const {
    return rows_ * kGroup * attention_partial_floats(kShape.head_dim);
  }
  AttentionArgs args_of(int32_t layer) {
    return {.kv = sequence_.view(),
            .layer = layer,
            .first_position = depth_,
            .num_heads = kNumHeads,
            .scale = 0.125f,
            .q = q_.data(),
            .q_stride = kWidth,
            .out = out_.data(),
            .out_stride = kWidth};
  }

  const KernelSet& set_;
  const Sequence& sequence_;
  int32_t depth_;
  int32_t rows_;
  int32_t num_splits_;
  std::vector<float> q_, out_, partials_;
};

/// One line of the result: what is timed, and its times.
struct Setting {
  void (Job::*work)(ThreadPool&);
  std::string_view name;
  int32_t depth;
  int32_t rows;
  int32_t threads;
  std::vector<double> ms;
};

std::vector<Setting> all_settings() {
  std::vector<Setting> settings;
  for (const int32_t threads : {1, 2}) {
    for (const int32_t depth : {256, 2047, 8191}) {
      settings.push_back({&Job::read, "read", depth, 1, threads, {}});
      settings.push_back({&Job::by_splits, "decode", depth, 1, threads, {}});
    }
    for (const int32_t rows : {1, 2, 4, 8}) {
      settings.push_back({&Job::by_splits, "few", 6000, rows, threads, {}});
    }
    for (const int32_t depth : {0, 2048}) {
      settings.push_back({&Job::prefill, "prefill", depth, 512, threads, {}});
    }
  }
  return settings;
}

void run(const KernelSet& set, int rounds, std::string_view only) {
  const Sequence sequence(8192);
  ThreadPool one(1);
  ThreadPool two(2);
  const ScopedFloatEnvironment environment;
  std::vector<Setting> settings = all_settings();
  std::erase_if(settings, [&](const Setting& s) { return !s.name.starts_with(only); });
  for (int round = 0; round <= rounds; ++round) {
    for (Setting& setting : settings) {
      Job job(set, sequence, setting.depth, setting.rows);
      const double start = now_ms();
      (job.*setting.work)(setting.threads == 1 ? one : two);
      if (round > 0) setting.ms.push_back(now_ms() - start);  // the first warms up
    }
  }
  fmt::print("{}: ms for 30 layers\n{:<10}{:>8}{:>6}{:>9}{:>10}{:>10}\n", set.name, "", "depth",
             "rows", "threads", "median", "fastest");
  for (Setting& setting : settings) {
    std::sort(setting.ms.begin(), setting.ms.end());
    fmt::print("{:<10}{:>8}{:>6}{:>9}{:>10.2f}{:>10.2f}\n", setting.name, setting.depth,
               setting.rows, setting.threads, setting.ms[setting.ms.size() / 2],
               setting.ms.front());
  }
}

}  // namespace
}  // namespace quire::kernels

int main(int argc, char** argv) {
  const auto set = quire::kernels::select_kernels(argc > 1 ? argv[1] : "");
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 15;
  if (!set.ok() || rounds < 1) {
    fmt::print(stderr, "usage: quire_attention_bench [scalar|avx2|avx512] [rounds] [setting]\n");
    return 2;
  }
  quire::kernels::run(*set.value(), rounds, argc > 3 ? argv[3] : "");
  return 0;
}
