// spill_reader.h: reads the spilled pages of a batch, one layer ahead of the computation.
//
// Two staging buffers take turns: while attention reads one layer, a thread fills the other with
// the next. A model too shallow for two has one, and reads a layer when it is entered
// (spill_plan.h). Thread rule: one thread uses it; its own thread touches nothing but the buffer it
// fills.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/huge_buffer.h"
#include "base/result.h"
#include "kernels/layer_stream.h"
#include "kv/geometry.h"
#include "kv/page_spill.h"
#include "kv/page_table.h"

namespace quire::kv {

class SpillReader final : public kernels::LayerStream {
 public:
  /// What a group has in the spill file. `spill` is null if nothing of it can be there.
  struct Group {
    const PageSpill* spill = nullptr;
    PageForm form = PageForm::kOpen;  // which form is spilled
  };
  /// Both must outlive it; `groups` has one entry a group.
  SpillReader(const KvGeometry& geometry, std::vector<Group> groups);
  SpillReader(const SpillReader&) = delete;
  SpillReader& operator=(const SpillReader&) = delete;
  ~SpillReader() override;

  /// Prepares a pass over sequences with these tables, [sequence][group], and begins to read. The
  /// tables must not change before finish().
  [[nodiscard]] Result<void> start(std::span<const std::span<const PageTable>> sequences);
  /// Ends the pass; waits for a read that is under way.
  void finish();
  /// Frees buffers of more than `bytes`: what they were needed for is no longer spilled. Ends the
  /// pass.
  void shrink_buffers(int64_t bytes);

  Result<void> enter(int32_t layer) override;
  const kernels::PagedKvView& view(int32_t sequence) const override;

 private:
  /// One group's part of a pass.
  struct Plan {
    std::vector<PageId> pages;  // spilled ones, ascending, each once
    /// Views as the tables give them; spilled pages have `slots` >= 0: where they are in `pages`.
    std::vector<std::vector<kernels::PageSpan>> spans;  // [sequence]
    std::vector<std::vector<int32_t>> slots;            // [sequence][span]
  };
  struct Job {
    int32_t layer = 0;
    int32_t buffer = 0;
  };

  [[nodiscard]] Plan plan_group(size_t group,
                                std::span<const std::span<const PageTable>> sequences) const;
  [[nodiscard]] Result<void> read(Job job);
  void request(Job job);
  [[nodiscard]] Result<void> wait();
  void work();
  void point_views(int32_t layer, int32_t buffer);

  const KvGeometry& geometry_;
  const std::vector<Group> groups_;
  std::vector<Plan> plans_;                  // [groups]
  std::vector<HugeBuffer> buffers_;          // one or two, each as large as a layer's spilled pages
  std::vector<kernels::PagedKvView> views_;  // [sequence], of the layer at hand
  std::vector<std::vector<kernels::PageSpan>> current_spans_;  // [sequence]
  int32_t next_layer_ = 0;

  std::thread thread_;  // started when first needed
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Job> job_;               // guarded by mutex_: asked for or under way
  std::optional<Result<void>> outcome_;  // guarded by mutex_: of the job done last
  bool stopping_ = false;                // guarded by mutex_
};

}  // namespace quire::kv
