// Random operation sequences on a KvStore beside a naive twin; after each operation the store
// checks itself, and every row, page and count is compared. The harness proves itself on planted
// faults.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kv/fake_private_file.h"
#include "kv/kv_store.h"
#include "kv/naive_store.h"

namespace quire::kv {
namespace {

constexpr int64_t kMaxLength = 420;
constexpr size_t kMaxSequences = 5;

enum class Fault {
  kNone,
  kWritesSharedPages,   // a copy-on-write that still writes to the page it left
  kLeaksAPin,           // a fork that forgets one pin
  kFreesOneKeyTooSoon,  // a window shorter by one
  kFreesOneKeyTooLate,
  kCommitsOneTooMany,
};

struct Config {
  std::string name;
  std::vector<LayerKv> layers;
  KvCodecs codecs;
  int64_t budget_pages = 0;
  std::optional<StaticReservation> fixed;
  bool spills = false;
};

void PrintTo(const Config& config, std::ostream* out) {
  *out << config.name;
}

std::vector<Config> configs() {
  return {
      {"Global", {{1, 2, 0}, {1, 2, 0}}, {Codec::F16, Codec::F16}, 8, std::nullopt},
      {"TinyBudget", {{1, 2, 0}, {2, 1, 0}}, {Codec::F32, Codec::BF16}, 9, std::nullopt},
      {"Hybrid",
       {{1, 2, 100}, {1, 2, 0}, {1, 2, 100}},
       {Codec::BF16, Codec::F32},
       10,
       std::nullopt},
      {"Windows", {{1, 2, 2}, {1, 2, 64}, {1, 2, 65}, {1, 2, 200}}, {}, 20, std::nullopt},
      {"Static", {{1, 2, 0}, {1, 2, 70}}, {}, 60, StaticReservation{150, 2, 100}},
      {"Lossy", {{1, 2, 0}, {1, 2, 0}}, {Codec::Q8, Codec::Q4}, 12, std::nullopt},
      {"LossyHybrid",
       {{1, 2, 0}, {1, 2, 70}, {1, 2, 130}},
       {Codec::Q4, Codec::F16},
       26,
       std::nullopt},
      {"LossyStatic",
       {{1, 2, 0}, {1, 2, 70}},
       {Codec::Q8, Codec::Q8},
       80,
       StaticReservation{250, 2, 100}},
      {"Sinks", {{1, 2, 40, 4}, {1, 2, 2, 70}, {1, 2, 100}}, {}, 18, std::nullopt},
      {"LossySinks", {{1, 2, 40, 4}, {1, 2, 2, 70}}, {Codec::Q8, Codec::Q8}, 21, std::nullopt},
      {"Spilled", std::vector<LayerKv>(4, {1, 2, 0}), {}, 7, std::nullopt, true},
      {"LossySpilled",
       std::vector<LayerKv>(4, {1, 2, 0}),
       {Codec::Q8, Codec::Q8},
       10,
       std::nullopt,
       true},
      {"SpilledHybrid",
       {{1, 2, 0}, {1, 2, 0}, {1, 2, 0}, {1, 2, 100}, {1, 2, 100}, {1, 2, 100}},
       {Codec::F32, Codec::F16},
       12,
       std::nullopt,
       true},
  };
}

KvStoreOptions store_options(const Config& config) {
  KvStoreOptions options{.budget_bytes = config.budget_pages * kPageAlignment,
                         .static_reservation = config.fixed};
  if (config.spills) {
    options.spill = SpillOptions{
        .open_file =
            [faults = std::make_shared<DiskFaults>()]() -> Result<std::unique_ptr<PrivateFile>> {
          return std::unique_ptr<PrivateFile>(std::make_unique<FakePrivateFile>(faults));
        },
        .max_bytes = 1 << 20};
  }
  return options;
}

/// One run: a store, its twin and a source of random choices.
class RandomRun {
 public:
  RandomRun(const Config& config, uint32_t seed, Fault fault)
      : fault_(fault),
        random_(seed),
        spills_(config.spills),
        store_(KvStore::create(KvGeometry::create(config.layers, config.codecs).value(),
                               store_options(config))
                   .value()),
        twin_(naive_groups(config),
              config.spills ? INT64_MAX : config.budget_pages * kPageAlignment) {}

  /// What first differed or broke, if anything.
  std::optional<std::string> play(int num_operations) {
    for (int i = 0; i < num_operations; ++i) {
      auto difference = step();
      if (!difference) difference = store_->find_fault();
      if (!difference) difference = compare();
      if (difference) return fmt::format("operation {}: {}", i, *difference);
    }
    return std::nullopt;
  }

  bool spilled() const { return spilled_; }
  int refusals() const { return refusals_; }
  int64_t copies() const { return store_->stats().pages_copied; }

 private:
  std::vector<NaiveGroup> naive_groups(const Config& config) const {
    std::vector<NaiveGroup> groups;
    const int64_t shift = fault_ == Fault::kFreesOneKeyTooSoon   ? 1
                          : fault_ == Fault::kFreesOneKeyTooLate ? -1
                                                                 : 0;
    for (const LayerGroup& group : store_->geometry().groups()) {
      NaiveGroup naive{.window = group.window_tokens,
                       .sinks = group.sink_tokens,
                       .lossy = !group.is_lossless(),
                       .page_bytes = kPageAlignment,
                       .max_pages = config.budget_pages,
                       .max_sealed_pages = config.budget_pages,
                       .prepaid = config.fixed.has_value()};
      if (config.fixed) {
        const auto& [tokens, sequences, chunk] = *config.fixed;
        naive.max_pages = group.peak_open_pages(tokens, chunk) * sequences;
        naive.max_sealed_pages = group.peak_sealed_pages(tokens, chunk) * sequences;
      }
      if (config.spills) naive.max_pages = naive.max_sealed_pages = INT32_MAX;
      if (naive.window > 0) naive.window += shift;
      groups.push_back(naive);
    }
    return groups;
  }

  int64_t pick(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }

  std::optional<std::string> step() {
    if (sequences_.empty()) return create();
    auto chosen = sequences_.begin();
    std::advance(chosen, pick(0, static_cast<int64_t>(sequences_.size()) - 1));
    const int64_t choice = pick(0, 99);
    if (choice < 8) return create();
    if (choice < 14) return destroy(chosen->first);
    if (choice < 28) return fork(chosen->second);
    if (choice < 43) return truncate(chosen->second);
    if (choice < 66) return reserve(chosen->second);
    return write_and_commit(chosen->second);
  }

  std::optional<std::string> create() {
    if (sequences_.size() == kMaxSequences) return std::nullopt;
    adopt(store_->create_sequence());
    twin_.create(last_id_);
    return std::nullopt;
  }

  std::optional<std::string> destroy(int64_t id) {
    sequences_.erase(id);
    twin_.destroy(id);
    return std::nullopt;
  }

  std::optional<std::string> fork(const KvSequence& seq) {
    if (sequences_.size() == kMaxSequences) return std::nullopt;
    adopt(store_->fork(seq));
    twin_.fork(seq.id().value, last_id_);
    const auto entries = store_->table(seq, 0).entries();
    if (fault_ == Fault::kLeaksAPin && !entries.empty()) {
      stray_pins_.push_back(entries.back().page.share());
    }
    return std::nullopt;
  }

  std::optional<std::string> truncate(const KvSequence& seq) {
    const int64_t length = store_->length(seq);
    const int64_t target =
        pick(0, 3) == 0 ? pick(0, length) : std::max<int64_t>(0, length - pick(0, 40));
    const auto result = store_->truncate(seq, target);
    if (!result.ok() && is_spilled_at(seq, target)) return std::nullopt;
    if (result.ok() != twin_.truncate(seq.id().value, target)) {
      return fmt::format("rollback from {} to {} was {}", length, target,
                         result.ok() ? "granted" : result.error().message);
    }
    return std::nullopt;
  }

  std::optional<std::string> reserve(const KvSequence& seq) {
    const int64_t id = seq.id().value;
    const int64_t longest = pick(0, 1) == 0 ? 8 : 200;
    const int64_t tokens = std::min(pick(1, longest), kMaxLength - store_->length(seq));
    if (tokens <= 0) return std::nullopt;
    int64_t pages = 0;
    for (size_t g = 0; g < twin_.groups().size(); ++g) {
      pages += static_cast<int64_t>(twin_.missing(id, g, tokens).size() +
                                    twin_.missing_sealed(id, g, tokens).size());
    }
    const ReservePlan plan = store_->plan_reserve(seq, tokens);
    if (plan.new_pages != pages) {
      return fmt::format("planned {} pages for {} tokens, not {}", plan.new_pages, tokens, pages);
    }
    if (fault_ == Fault::kWritesSharedPages && plan.copied_pages > 0) remember_last_page(seq);

    const auto result = store_->reserve(seq, tokens);
    if (spills_ && !result.ok()) {
      ++refusals_;
      return find_page_to_spill();
    }
    if (result.ok() != twin_.reserve(id, tokens) || (!spills_ && result.ok() != plan.fits)) {
      return fmt::format("reserving {} tokens was {}", tokens,
                         result.ok() ? "granted" : result.error().message);
    }
    refusals_ += result.ok() ? 0 : 1;
    return std::nullopt;
  }

  /// Writes all reserved slots and commits some of them, as a verified draft does.
  std::optional<std::string> write_and_commit(const KvSequence& seq) {
    const int64_t reserved = store_->reserved(seq);
    const int64_t first = store_->length(seq);
    std::vector<std::vector<Row>> rows(twin_.groups().size());
    for (size_t g = 0; g < rows.size(); ++g) {
      const auto view = store_->view(seq, static_cast<int32_t>(g));
      for (int64_t p = first; p < first + reserved; ++p) {
        const auto* span = find_span(view, p);
        if (span == nullptr) return fmt::format("reserved position {} has no slot", p);
        rows[g].push_back(random_row(g));
        write_row(view.shape, *span, p, rows[g].back());
        write_to_remembered_page(seq, g, p, rows[g].back());
      }
    }
    seal_filled_pages(seq, rows);
    const int64_t accepted = pick(0, 2) == 0 ? pick(0, reserved) : reserved;
    store_->commit(seq, accepted);
    const bool miscounts = fault_ == Fault::kCommitsOneTooMany && accepted > 0;
    twin_.commit(seq.id().value, rows, miscounts ? accepted - 1 : accepted);
    return std::nullopt;
  }

  /// As the engine does before a commit, with a digest of the page's rows for its codes.
  void seal_filled_pages(const KvSequence& seq, const std::vector<std::vector<Row>>& written) {
    const int64_t first = store_->length(seq);
    const int64_t end = first + store_->reserved(seq);
    for (size_t g = 0; g < written.size(); ++g) {
      std::vector<Row> rows = twin_.sequences().at(seq.id().value).rows[g];
      rows.insert(rows.end(), written[g].begin(), written[g].end());
      for (const auto& span : store_->view(seq, static_cast<int32_t>(g)).pages) {
        const int64_t page_end = span.logical_base + kPageTokens;
        if (span.sealed == nullptr || page_end <= first || page_end > end) continue;
        const uint64_t digest = digest_of(rows, span.logical_base);
        std::memcpy(span.sealed, &digest, sizeof digest);
      }
    }
  }

  static uint64_t digest_of(const std::vector<Row>& rows, int64_t base) {
    uint64_t digest = 14695981039346656037u;
    for (int64_t p = base; p < base + kPageTokens; ++p) {
      for (const std::byte b : rows.at(static_cast<size_t>(p))) {
        digest = (digest ^ static_cast<uint64_t>(b)) * 1099511628211u;
      }
    }
    return digest;
  }

  /// Whether the page under `position` is in a spill file, so that nothing can be written behind
  /// it.
  bool is_spilled_at(const KvSequence& seq, int64_t position) const {
    for (size_t g = 0; g < twin_.groups().size(); ++g) {
      for (const PageTableEntry& entry : store_->table(seq, static_cast<int32_t>(g)).entries()) {
        if (entry.logical_base == position - position % kPageTokens && entry.page &&
            entry.page.is_spilled()) {
          return true;
        }
      }
    }
    return false;
  }

  /// A refusal is due only when every full page but the last of each table has left memory.
  std::optional<std::string> find_page_to_spill() const {
    for (const auto& [id, seq] : sequences_) {
      for (size_t g = 0; g < twin_.groups().size(); ++g) {
        const auto entries = store_->table(seq, static_cast<int32_t>(g)).entries();
        for (size_t i = 0; i + 1 < entries.size(); ++i) {
          const PageRef& page = twin_.groups()[g].lossy ? entries[i].sealed : entries[i].page;
          const bool is_full = entries[i].end == kPageTokens;
          if (page && is_full && entries[i].end_position() <= store_->length(seq) &&
              !page.is_spilled() && !is_partial_somewhere(page.id(), g)) {
            return fmt::format("refused, but sequence {} could spill a page", id);
          }
        }
      }
    }
    return std::nullopt;
  }

  /// A page that some sequence ends in stays in memory, to be copied from.
  bool is_partial_somewhere(PageId page, size_t group) const {
    return std::any_of(sequences_.begin(), sequences_.end(), [&](const auto& other) {
      const auto entries = store_->table(other.second, static_cast<int32_t>(group)).entries();
      return std::any_of(entries.begin(), entries.end(), [&](const PageTableEntry& e) {
        return e.page && e.page.id() == page && e.end < kPageTokens;
      });
    });
  }

  /// Every row of the sequence as a pass over the layers reads it, from memory or disk.
  std::optional<std::string> compare_streamed(const KvSequence& seq, const NaiveSequence& naive) {
    const KvSequence* const sequence = &seq;
    const auto stream = store_->stream({&sequence, 1});
    if (!stream.ok()) return stream.error().message;
    if (*stream == nullptr) return std::nullopt;
    spilled_ = true;
    const KvGeometry& geometry = store_->geometry();
    for (int32_t layer = 0; layer < geometry.num_layers(); ++layer) {
      const auto entered = (*stream)->enter(layer);
      if (!entered.ok()) return entered.error().message;
      const LayerPlace place = geometry.place(layer);
      const auto& rows = naive.rows[static_cast<size_t>(place.group)];
      const kernels::PagedKvView& view = (*stream)->view(0);
      for (const kernels::PageSpan& span : view.pages) {
        const int64_t end = std::min<int64_t>(naive.length, span.logical_base + span.end);
        for (int64_t p = span.logical_base + span.begin; span.page != nullptr && p < end; ++p) {
          if (!holds_layer(view.shape, span, p, rows[static_cast<size_t>(p)], place.index)) {
            return fmt::format("layer {}: the row at position {} is another one", layer, p);
          }
        }
        if (span.page == nullptr && span.sealed == nullptr) return "a page that cannot be read";
        const bool is_sealed =
            span.sealed != nullptr && span.logical_base + kPageTokens <= naive.length;
        if (is_sealed && layer == 0 && !holds_digest(span, rows)) return "another sealed page";
      }
    }
    store_->end_stream();
    return std::nullopt;
  }

  static bool holds_digest(const kernels::PageSpan& span, const std::vector<Row>& rows) {
    const uint64_t digest = digest_of(rows, span.logical_base);
    return std::memcmp(span.sealed, &digest, sizeof digest) == 0;
  }

  /// Everything that the twin holds is in the store, at its place, and nothing else.
  std::optional<std::string> compare() {
    const KvStats stats = store_->stats();
    for (size_t g = 0; g < twin_.groups().size(); ++g) {
      if (stats.groups[g].pages_held != twin_.pages_held(g)) {
        return fmt::format("group {} holds {} pages, not {}", g, stats.groups[g].pages_held,
                           twin_.pages_held(g));
      }
      if (stats.groups[g].sealed_pages_held != twin_.sealed_held(g)) {
        return fmt::format("group {} holds {} sealed pages, not {}", g,
                           stats.groups[g].sealed_pages_held, twin_.sealed_held(g));
      }
    }
    if (!twin_.groups()[0].prepaid && !spills_ && stats.bytes_held != twin_.bytes_held()) {
      return fmt::format("{} bytes are held, not {}", stats.bytes_held, twin_.bytes_held());
    }
    for (const auto& [id, seq] : sequences_) {
      for (size_t g = 0; g < twin_.groups().size(); ++g) {
        if (auto difference = compare_group(seq, twin_.sequences().at(id), g)) {
          return fmt::format("sequence {}, group {}: {}", id, g, *difference);
        }
      }
      if (!spills_) continue;
      if (auto difference = compare_streamed(seq, twin_.sequences().at(id))) {
        return fmt::format("sequence {}, streamed: {}", id, *difference);
      }
    }
    return std::nullopt;
  }

  std::optional<std::string> compare_group(const KvSequence& seq, const NaiveSequence& naive,
                                           size_t g) {
    if (store_->length(seq) != naive.length || store_->reserved(seq) != naive.reserved) {
      return fmt::format("{} + {} tokens, not {} + {}", store_->length(seq), store_->reserved(seq),
                         naive.length, naive.reserved);
    }
    const auto view = store_->view(seq, static_cast<int32_t>(g));
    const int64_t window = twin_.groups()[g].window;
    const int64_t first_visible = window > 0 ? std::max<int64_t>(0, naive.length - window + 1) : 0;
    std::set<int64_t> open;
    std::set<int64_t> sealed;
    for (const PageTableEntry& entry : store_->table(seq, static_cast<int32_t>(g)).entries()) {
      if (entry.page) open.insert(entry.logical_base / kPageTokens);
      if (entry.sealed) sealed.insert(entry.logical_base / kPageTokens);
    }
    if (!same_indices(open, naive.pages[g])) return "other open pages";
    if (!same_indices(sealed, naive.sealed[g])) return "other sealed pages";
    for (const kernels::PageSpan& span : view.pages) {
      const int64_t page_end = span.logical_base + kPageTokens;
      if (span.sealed != nullptr && page_end <= naive.length) {
        if (!holds_digest(span, naive.rows[g])) {
          return fmt::format("the page at position {} is sealed from other rows",
                             span.logical_base);
        }
      }
      if (span.page == nullptr) continue;
      if (span.begin > 0 && span.logical_base + span.begin > first_visible) {
        return fmt::format("the page at position {} hides keys", span.logical_base);
      }
      const int64_t end = std::min<int64_t>(naive.length, span.logical_base + span.end);
      for (int64_t p = span.logical_base + span.begin; p < end; ++p) {
        if (!holds_row(view.shape, span, p, naive.rows[g][static_cast<size_t>(p)])) {
          return fmt::format("the row at position {} is another one", p);
        }
      }
    }
    return std::nullopt;
  }

  static bool same_indices(const std::set<int64_t>& found,
                           const std::map<int64_t, int64_t>& pages) {
    return std::equal(found.begin(), found.end(), pages.begin(), pages.end(),
                      [](int64_t index, const auto& page) { return index == page.first; });
  }

  Row random_row(size_t group) {
    const LayerGroup& layers = store_->geometry().groups()[group];
    Row row(static_cast<size_t>(layers.row_bytes()));
    for (std::byte& b : row) b = static_cast<std::byte>(random_());
    return row;
  }

  void adopt(KvSequence seq) {
    last_id_ = seq.id().value;
    sequences_[last_id_] = std::move(seq);
  }

  void remember_last_page(const KvSequence& seq) {
    left_page_ = store_->view(seq, 0).pages.back();
    left_by_ = seq.id();
  }

  void write_to_remembered_page(const KvSequence& seq, size_t group, int64_t position,
                                const Row& row) {
    const int64_t slot = position - left_page_.logical_base;
    if (left_by_ != seq.id() || group != 0 || slot < 0 || slot >= kPageTokens) return;
    write_row(store_->view(seq, 0).shape, left_page_, position, row);
  }

  const Fault fault_;
  bool spilled_ = false;
  std::mt19937 random_;
  const bool spills_;
  std::unique_ptr<KvStore> store_;
  NaiveStore twin_;
  std::vector<PageRef> stray_pins_;
  std::map<int64_t, KvSequence> sequences_;
  int64_t last_id_ = 0;
  int refusals_ = 0;
  kernels::PageSpan left_page_;
  SeqId left_by_;
};

class RandomOperations : public testing::TestWithParam<Config> {};

TEST_P(RandomOperations, LeaveTheStoreEqualToItsNaiveTwin) {
  int refusals = 0;
  int64_t copies = 0;
  int spilled = 0;
  const uint32_t runs = GetParam().spills ? 150 : 2'000;  // threads and maps are slow
  for (uint32_t seed = 0; seed < runs; ++seed) {
    RandomRun run(GetParam(), seed, Fault::kNone);
    const auto difference = run.play(GetParam().spills ? 60 : 30);
    ASSERT_EQ(difference, std::nullopt) << "seed " << seed;
    refusals += run.refusals();
    copies += run.copies();
    spilled += run.spilled() ? 1 : 0;
  }
  if (GetParam().spills) EXPECT_GT(spilled, 30);
  // A run that never met the limits would prove little.
  EXPECT_GT(refusals, runs / 20);
  EXPECT_GT(copies, runs / 4);
}

std::string config_name(const testing::TestParamInfo<Config>& info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(KvStore, RandomOperations, testing::ValuesIn(configs()), config_name);

class PlantedFault : public testing::TestWithParam<Fault> {};

TEST_P(PlantedFault, IsFoundByRandomOperations) {
  const Config windows = configs()[3];
  const Config global = configs()[0];
  bool found = false;
  for (uint32_t seed = 0; seed < 300 && !found; ++seed) {
    found = RandomRun(windows, seed, GetParam()).play(40).has_value() ||
            RandomRun(global, seed, GetParam()).play(40).has_value();
  }
  EXPECT_TRUE(found);
}

std::string fault_name(const testing::TestParamInfo<Fault>& info) {
  switch (info.param) {
    case Fault::kNone:
      return "None";
    case Fault::kWritesSharedPages:
      return "WritesSharedPages";
    case Fault::kLeaksAPin:
      return "LeaksAPin";
    case Fault::kFreesOneKeyTooSoon:
      return "FreesOneKeyTooSoon";
    case Fault::kFreesOneKeyTooLate:
      return "FreesOneKeyTooLate";
    case Fault::kCommitsOneTooMany:
      return "CommitsOneTooMany";
  }
  return "Unknown";
}
INSTANTIATE_TEST_SUITE_P(KvStore, PlantedFault,
                         testing::Values(Fault::kWritesSharedPages, Fault::kLeaksAPin,
                                         Fault::kFreesOneKeyTooSoon, Fault::kFreesOneKeyTooLate,
                                         Fault::kCommitsOneTooMany),
                         fault_name);

}  // namespace
}  // namespace quire::kv
