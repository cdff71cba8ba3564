// Random operations on everything a KvStore can do at once: two tenants, prefix tree, sealed pages,
// windows, sinks, forks, drafts rolled back, spill files, a disk that is full for a while. A row is
// a function of the tokens up to it, so the twin of a sequence is its tokens, and that of the tree
// the texts that were published. After each operation the store checks itself and every page of
// every sequence is read. QUIRE_RANDOM_SEQUENCES says how many sequences a configuration lives
// through (default 300).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <ostream>
#include <random>
#include <string>

#include "kv/fake_private_file.h"
#include "kv/token_sequences.h"

namespace quire::kv {
namespace {

constexpr int64_t kMaxLength = 400;
constexpr size_t kMaxSequences = 5;
constexpr int kOperations = 60;

/// Mistakes that the campaign must notice, made between the store and the checks.
enum class Fault {
  kNone,
  kWritesBeforeItsEnd,   // into a row that is committed, perhaps a shared one
  kSealsFromOtherRows,   // a page's codes are of a neighbour's tokens
  kPublishesOtherTokens  // pages join the tree under a text they do not hold
};

struct Config {
  std::string name;
  std::vector<LayerKv> layers;
  KvCodecs codecs;
  int64_t budget_pages = 0;
  PrefixTreeOptions prefix;
  bool spills = false;
};

void PrintTo(const Config& config, std::ostream* out) {
  *out << config.name;
}

std::vector<Config> configs() {
  const KvCodecs lossless = {};
  const KvCodecs lossy = {Codec::Q8, Codec::Q4};
  const std::vector<LayerKv> global(4, {1, 2, 0});
  const std::vector<LayerKv> hybrid = {{1, 2, 0},   {1, 2, 0},   {1, 2, 0},
                                       {1, 2, 100}, {1, 2, 100}, {1, 2, 100}};
  const std::vector<LayerKv> sinks = {{1, 2, 0}, {1, 2, 0}, {1, 2, 0}, {1, 2, 70, 10}};
  return {{"Spilled", global, lossless, 9, {.whole_pages = true}, true},
          {"Lossy", global, lossy, 16, {}, false},
          {"LossyHybrid", hybrid, lossy, 30, {}, false},
          {"LossySpilled", global, lossy, 12, {}, true},
          {"LossyHybridSpilled", hybrid, lossy, 26, {.hash_bits = 2}, true},
          {"HybridSpilled", hybrid, lossless, 18, {.whole_pages = true}, true},
          {"LossySinksSpilled", sinks, lossy, 24, {.budget_bytes = 12 * kPageAlignment}, true},
          {"SinksOneBitHashes", sinks, lossless, 20, {.hash_bits = 1}, false}};
}

int sequences_wanted() {
  const char* wanted = std::getenv("QUIRE_RANDOM_SEQUENCES");
  return wanted != nullptr ? std::atoi(wanted) : 300;
}

int64_t size_of(const Tokens& tokens) {
  return static_cast<int64_t>(tokens.size());
}

int64_t common(const Tokens& a, const Tokens& b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
}

/// What stands for the codes of the page at `base`: a digest of the tokens up to its end.
uint64_t page_digest(const Tokens& tokens, int64_t base, size_t group) {
  const auto prefix = std::span(tokens).first(static_cast<size_t>(base + kPageTokens));
  return hash64(std::as_bytes(prefix), 1000 + group);
}

/// What a campaign met: one that met nothing would prove little.
struct Met {
  int sequences = 0;
  int refusals = 0;
  int hits = 0;
  int rollbacks = 0;
  int full_disks = 0;
  int spilled = 0;
  int64_t evicted = 0;
};

class WholeRun {
 public:
  WholeRun(const Config& config, uint32_t seed, Fault fault)
      : fault_(fault),
        random_(seed),
        store_(KvStore::create(KvGeometry::create(config.layers, config.codecs).value(),
                               options(config))
                   .value()) {
    keys_[1].tenant = "another";
  }

  /// What first differed or broke, if anything.
  std::optional<std::string> play(int num_operations, Met& met) {
    for (int i = 0; i < num_operations; ++i) {
      auto difference = step(met);
      if (!difference) difference = store_->find_fault();
      if (!difference) difference = compare(met);
      if (difference) return fmt::format("operation {}: {}", i, *difference);
    }
    met.evicted += store_->stats().prefix_evicted;
    return end();
  }

 private:
  struct Owned {
    TokenSequence sequence;
    size_t tenant = 0;
  };

  KvStoreOptions options(const Config& config) {
    KvStoreOptions options{.budget_bytes = config.budget_pages * kPageAlignment,
                           .prefix = config.prefix};
    if (!config.spills) return options;
    options.spill = SpillOptions{
        .open_file = [this]() -> Result<std::unique_ptr<PrivateFile>> {
          return std::unique_ptr<PrivateFile>(std::make_unique<FakePrivateFile>(disk_));
        },
        .max_bytes = 1 << 20};
    return options;
  }

  bool is_lossy() const { return !store_->geometry().groups()[0].is_lossless(); }

  int64_t pick(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }

  Owned& any() {
    auto chosen = sequences_.begin();
    std::advance(chosen, pick(0, static_cast<int64_t>(sequences_.size()) - 1));
    return chosen->second;
  }

  Tokens random_tokens(int64_t count) {
    Tokens tokens;
    for (int64_t i = 0; i < count; ++i) tokens.push_back({static_cast<int32_t>(pick(0, 1))});
    return tokens;
  }

  std::optional<std::string> step(Met& met) {
    const int64_t choice = pick(0, 99);
    if (sequences_.empty() || choice < 5) return create(met);
    if (choice < 12) return destroy();
    if (choice < 19) return fork(met);
    if (choice < 28) return truncate(met);
    if (choice < 58) return append_to(any(), met);
    if (choice < 73) return publish();
    if (choice < 92) return match(met);
    if (choice < 96) return unpin();
    if (choice < 97) return forget();
    return turn_disk();
  }

  void keep(Owned owned, Met& met) {
    const int64_t id = owned.sequence.cached.id().value;
    sequences_[id] = std::move(owned);
    ++met.sequences;
  }

  std::optional<std::string> create(Met& met) {
    if (sequences_.size() < kMaxSequences) {
      keep({{store_->create_sequence(), {}}, static_cast<size_t>(pick(0, 1))}, met);
    }
    return std::nullopt;
  }

  std::optional<std::string> destroy() {
    sequences_.erase(any().sequence.cached.id().value);
    return std::nullopt;
  }

  std::optional<std::string> fork(Met& met) {
    if (sequences_.size() == kMaxSequences) return std::nullopt;
    const Owned& source = any();
    keep({{store_->fork(source.sequence.cached), source.sequence.tokens}, source.tenant}, met);
    return std::nullopt;
  }

  std::optional<std::string> truncate(Met& met) {
    TokenSequence& seq = any().sequence;
    const int64_t target = pick(0, 1) == 0
                               ? pick(0, size_of(seq.tokens))
                               : std::max<int64_t>(0, size_of(seq.tokens) - pick(1, 30));
    const Result<void> done = store_->truncate(seq.cached, target);
    if (!done.ok()) {
      return done.error().code == ErrorCode::kUnsupported ? std::nullopt
                                                          : std::optional(done.error().message);
    }
    seq.tokens = first_of(seq.tokens, target);
    ++met.rollbacks;
    return std::nullopt;
  }

  /// Reserves, writes all, seals what is full, commits all or, as after a refused draft, a part.
  std::optional<std::string> append_to(Owned& owned, Met& met) {
    TokenSequence& seq = owned.sequence;
    const int64_t room = kMaxLength - size_of(seq.tokens);
    const int64_t count = std::min(room, pick(0, 3) == 0 ? pick(1, 4) : pick(1, 180));
    if (count <= 0) return std::nullopt;
    if (const Result<void> reserved = store_->reserve(seq.cached, count); !reserved.ok()) {
      ++met.refusals;
      const bool disk_may_refuse = disk_->writes_until_full <= 0;
      met.full_disks += reserved.error().code == ErrorCode::kIo ? 1 : 0;
      if (reserved.error().code == ErrorCode::kDoesNotFit) return std::nullopt;
      if (reserved.error().code == ErrorCode::kIo && disk_may_refuse) return std::nullopt;
      return reserved.error().message;
    }
    const Tokens after = seq.tokens + random_tokens(count);
    for (size_t g = 0; g < store_->geometry().groups().size(); ++g) write(seq, after, g);
    const int64_t accepted = pick(0, 2) == 0 ? pick(0, count) : count;
    const int64_t first = size_of(seq.tokens);
    seq.tokens = first_of(after, first + accepted);
    store_->commit(seq.cached, accepted);
    return std::nullopt;
  }

  void write(const TokenSequence& seq, const Tokens& after, size_t g) {
    const LayerGroup& group = store_->geometry().groups()[g];
    const auto view = store_->view(seq.cached, static_cast<int32_t>(g));
    const int64_t first = size_of(seq.tokens);
    const bool spoils = fault_ == Fault::kWritesBeforeItsEnd && first % kPageTokens > 0;
    for (int64_t p = first; p < size_of(after); ++p) {
      const auto prefix = std::span(after).first(static_cast<size_t>(p + 1));
      const Row row = row_of(prefix, g, group.row_bytes());
      write_row(view.shape, *find_span(view, p), p, row);
      if (spoils && p == first) write_row(view.shape, *find_span(view, p - 1), p - 1, row);
    }
    for (const kernels::PageSpan& span : view.pages) {
      const int64_t end = span.logical_base + kPageTokens;
      if (span.sealed == nullptr || end <= first || end > size_of(after)) continue;
      const int64_t shift = fault_ == Fault::kSealsFromOtherRows ? 64 : 0;
      const uint64_t digest = page_digest(after, span.logical_base - shift, g);
      std::memcpy(span.sealed, &digest, sizeof digest);
    }
  }

  std::optional<std::string> publish() {
    Owned& owned = any();
    Tokens text = owned.sequence.tokens;
    if (fault_ == Fault::kPublishesOtherTokens && !text.empty()) text.front().value ^= 1;
    store_->publish(keys_[owned.tenant], owned.sequence.cached, text,
                    pick(0, 2) > 0 ? PublishTail::kShare : PublishTail::kLeave);
    texts_[owned.tenant].push_back(text);
    return std::nullopt;
  }

  /// Mostly like what the tenant published; now and then like what the other did.
  Tokens random_prompt(size_t tenant) {
    const auto& texts = texts_[pick(0, 4) == 0 ? 1 - tenant : tenant];
    Tokens prompt;
    if (!texts.empty()) {
      const Tokens& text = texts[static_cast<size_t>(pick(0, int64_t(texts.size()) - 1))];
      prompt = first_of(text, pick(0, 2) > 0 ? size_of(text) : pick(0, size_of(text)));
    }
    prompt = prompt + random_tokens(pick(0, 1) == 0 ? pick(1, 3) : pick(1, 150));
    return first_of(prompt, std::min(size_of(prompt), kMaxLength));
  }

  /// What is found must have been published by this tenant; that it holds the right rows, compare()
  /// sees.
  std::optional<std::string> match(Met& met) {
    const auto tenant = static_cast<size_t>(pick(0, 1));
    const Tokens prompt = random_prompt(tenant);
    PrefixMatch found = store_->match(keys_[tenant], prompt);
    int64_t longest = 0;
    for (const Tokens& text : texts_[tenant]) longest = std::max(longest, common(text, prompt));
    longest = std::min(longest, size_of(prompt) - 1);
    if (found.tokens > longest) {
      return fmt::format("{} tokens matched where at most {} are known", found.tokens, longest);
    }
    if (is_lossy() && found.tokens % kPageTokens != 0) return "a page matched in part";
    if (found.tokens > 0) ++met.hits;
    if (sequences_.size() < kMaxSequences) {
      keep({{store_->adopt(found), first_of(prompt, found.tokens)}, tenant}, met);
    }
    if (found.pin && pins_.size() < 2 && pick(0, 3) == 0) pins_.push_back(std::move(found.pin));
    return std::nullopt;
  }

  std::optional<std::string> unpin() {
    if (!pins_.empty()) pins_.pop_back();
    return std::nullopt;
  }

  std::optional<std::string> forget() {
    store_->forget_prefixes();
    return std::nullopt;
  }

  std::optional<std::string> turn_disk() {
    disk_->writes_until_full = disk_->writes_until_full > 0 ? 0 : INT64_MAX;
    return std::nullopt;
  }

  std::optional<std::string> compare(Met& met) {
    for (const auto& [id, owned] : sequences_) {
      const TokenSequence& seq = owned.sequence;
      if (store_->length(seq.cached) != size_of(seq.tokens)) return "another length";
      auto wrong = compare_pages(seq, met);
      if (wrong) return fmt::format("sequence {}: {}", id, *wrong);
    }
    return std::nullopt;
  }

  /// Every page as a pass over the layers reads it, from memory or disk.
  std::optional<std::string> compare_pages(const TokenSequence& seq, Met& met) {
    const KvSequence* const one = &seq.cached;
    const auto stream = store_->stream({&one, 1});
    if (!stream.ok()) return stream.error().message;
    const KvGeometry& geometry = store_->geometry();
    if (*stream != nullptr) ++met.spilled;
    std::optional<std::string> wrong;
    for (int32_t layer = 0; layer < geometry.num_layers() && !wrong; ++layer) {
      const LayerPlace place = geometry.place(layer);
      const auto g = static_cast<size_t>(place.group);
      if (*stream == nullptr) {
        wrong = find_wrong(store_->view(seq.cached, place.group), seq.tokens, g, place.index);
        continue;
      }
      const auto entered = (*stream)->enter(layer);
      if (!entered.ok()) return entered.error().message;
      wrong = find_wrong((*stream)->view(0), seq.tokens, g, place.index);
    }
    store_->end_stream();
    return wrong;
  }

  /// The first position that a query at the end sees and whose form, the one that its position
  /// prescribes, does not hold what the tokens say.
  std::optional<std::string> find_wrong(const kernels::PagedKvView& view, const Tokens& tokens,
                                        size_t g, int32_t layer) const {
    const LayerGroup& group = store_->geometry().groups()[g];
    const int64_t length = size_of(tokens);
    for (int64_t p = 0; p < length; ++p) {
      if (p < group.first_needed(length) && p >= group.sink_tokens) continue;
      const auto* span = find_span(view, p);
      if (span == nullptr) return fmt::format("group {}: nothing at position {}", g, p);
      const int64_t base = span->logical_base;
      const bool is_full = base + kPageTokens <= length;
      if (!group.is_lossless() && base > 0 && is_full) {
        // The codes of all layers are one digest, in the first layer's bytes.
        if (span->sealed == nullptr) return fmt::format("group {}: no codes at {}", g, p);
        if (layer > 0) continue;
        const uint64_t digest = page_digest(tokens, base, g);
        if (std::memcmp(span->sealed, &digest, sizeof digest) == 0) continue;
        return fmt::format("group {}: other codes at position {}", g, p);
      }
      if (span->page == nullptr) return fmt::format("group {}: no rows at {}", g, p);
      const auto prefix = std::span(tokens).first(static_cast<size_t>(p + 1));
      const Row row = row_of(prefix, g, group.row_bytes());
      if (!holds_layer(view.shape, *span, p, row, layer)) {
        return fmt::format("group {}: another row at position {}", g, p);
      }
    }
    return std::nullopt;
  }

  /// With everything let go, nothing is held.
  std::optional<std::string> end() {
    sequences_.clear();
    pins_.clear();
    store_->forget_prefixes();
    if (auto fault = store_->find_fault()) return fault;
    const KvStats stats = store_->stats();
    if (stats.bytes_held != 0 || stats.bytes_spilled != 0 || stats.prefix_nodes != 0) {
      return fmt::format("{} bytes held and {} spilled at the end", stats.bytes_held,
                         stats.bytes_spilled);
    }
    return std::nullopt;
  }

  const Fault fault_;
  std::mt19937 random_;
  const std::shared_ptr<DiskFaults> disk_ = std::make_shared<DiskFaults>();
  std::unique_ptr<KvStore> store_;
  std::array<IdentityKey, 2> keys_;
  std::array<std::vector<Tokens>, 2> texts_;  // published by each tenant
  std::map<int64_t, Owned> sequences_;
  std::vector<PrefixPin> pins_;
};

class WholeStore : public testing::TestWithParam<Config> {};

TEST_P(WholeStore, HoldsWhatTheTokensSayThroughRandomOperations) {
  const Config& config = GetParam();
  Met met;
  const int wanted = sequences_wanted();
  for (uint32_t seed = 0; met.sequences < wanted; ++seed) {
    ASSERT_EQ(WholeRun(config, seed, Fault::kNone).play(kOperations, met), std::nullopt)
        << "seed " << seed;
  }
  EXPECT_GT(met.hits, wanted / 20);
  EXPECT_GT(met.rollbacks, wanted / 10);
  EXPECT_GT(met.refusals, 0);
  EXPECT_GT(met.evicted, wanted / 20);
  EXPECT_EQ(met.spilled > 0, config.spills);
  EXPECT_EQ(met.full_disks > 0, config.spills);
}

std::string config_name(const testing::TestParamInfo<Config>& info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(KvStore, WholeStore, testing::ValuesIn(configs()), config_name);

class PlantedWholeStoreFault : public testing::TestWithParam<Fault> {};

TEST_P(PlantedWholeStoreFault, IsFoundByRandomOperations) {
  bool found = false;
  Met met;
  for (uint32_t seed = 0; seed < 100 && !found; ++seed) {
    for (const Config& config : configs()) {
      found = found || WholeRun(config, seed, GetParam()).play(kOperations, met).has_value();
    }
  }
  EXPECT_TRUE(found);
}

INSTANTIATE_TEST_SUITE_P(KvStore, PlantedWholeStoreFault,
                         testing::Values(Fault::kWritesBeforeItsEnd, Fault::kSealsFromOtherRows,
                                         Fault::kPublishesOtherTokens));

}  // namespace
}  // namespace quire::kv
