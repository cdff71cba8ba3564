// Random operations on a KvStore with its prefix tree beside a naive twin: create, append, fork,
// match, publish, pin, evict, truncate, free. After each the store checks itself; rows, matches,
// evictions and pages are compared. QUIRE_RANDOM_SEQUENCES says how many sequences a configuration
// lives through (default 400).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <ostream>
#include <random>
#include <string>

#include "kv/naive_prefix_store.h"
#include "kv/token_sequences.h"

namespace quire::kv {
namespace {

constexpr int64_t kMaxLength = 330;
constexpr size_t kMaxSequences = 5;
constexpr int kOperations = 40;

struct Config {
  std::string name;
  std::vector<LayerKv> layers;
  int64_t budget_pages = 0;
  PrefixTreeOptions prefix;
};

void PrintTo(const Config& config, std::ostream* out) {
  *out << config.name;
}

std::vector<Config> configs() {
  return {{"Global", {{1, 2, 0}}, 14, {}},
          {"CollidingHashes", {{1, 2, 0}}, 9, {.hash_bits = 1}},
          {"Hybrid", {{1, 2, 100}, {1, 2, 0}}, 24, {.hash_bits = 8}},
          {"SmallTree", {{1, 2, 0}, {1, 2, 70}}, 40, {.budget_bytes = 9 * kPageAlignment}},
          {"Sinks", {{1, 2, 70, 10}, {1, 2, 0}}, 24, {}},
          {"Windows", {{1, 2, 2}, {1, 2, 64}, {1, 2, 150}}, 26, {}}};
}

int sequences_wanted() {
  const char* wanted = std::getenv("QUIRE_RANDOM_SEQUENCES");
  return wanted != nullptr ? std::atoi(wanted) : 400;
}

/// What a campaign met: one that met nothing would prove little.
struct Met {
  int sequences = 0;
  int refusals = 0;
  int64_t evicted = 0;
  int64_t collisions = 0;
  std::map<MissReason, int> misses;
  int partial_matches = 0;
};

class PrefixRun {
 public:
  PrefixRun(const Config& config, uint32_t seed, PrefixFault fault)
      : random_(seed),
        store_(KvStore::create(
                   KvGeometry::create(config.layers, {}).value(),
                   {.budget_bytes = config.budget_pages * kPageAlignment, .prefix = config.prefix})
                   .value()),
        twin_(naive_groups(), config.budget_pages * kPageAlignment, config.prefix.budget_bytes,
              fault) {}

  /// What first differed or broke, if anything.
  std::optional<std::string> play(int num_operations, Met& met) {
    for (int i = 0; i < num_operations; ++i) {
      auto difference = step(met);
      if (!difference) difference = store_->find_fault();
      if (!difference) difference = compare();
      if (difference) return fmt::format("operation {}: {}", i, *difference);
    }
    met.evicted += store_->stats().prefix_evicted;
    met.collisions += store_->stats().prefix_collisions;
    return std::nullopt;
  }

 private:
  std::vector<NaivePrefixGroup> naive_groups() const {
    std::vector<NaivePrefixGroup> groups;
    for (const LayerGroup& group : store_->geometry().groups()) {
      groups.push_back({group.window_tokens, group.sink_tokens, group.page_bytes()});
    }
    return groups;
  }

  int64_t pick(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }

  TokenSequence& any_sequence() {
    auto chosen = sequences_.begin();
    std::advance(chosen, pick(0, static_cast<int64_t>(sequences_.size()) - 1));
    return chosen->second;
  }

  Tokens random_tokens(int64_t count) {
    Tokens tokens;
    for (int64_t i = 0; i < count; ++i) tokens.push_back({static_cast<int32_t>(pick(0, 1))});
    return tokens;
  }

  /// A prompt that has something in common with what was there.
  Tokens random_prompt() {
    Tokens prompt;
    if (!texts_.empty()) {
      const Tokens& text = texts_[static_cast<size_t>(pick(0, int64_t(texts_.size()) - 1))];
      const auto size = static_cast<int64_t>(text.size());
      prompt = first_of(text, pick(0, 2) == 0 ? size : pick(0, size));
    }
    return prompt + random_tokens(pick(0, 1) == 0 ? pick(0, 3) : pick(0, 150));
  }

  std::optional<std::string> step(Met& met) {
    const int64_t choice = pick(0, 99);
    if (sequences_.empty() || choice < 6) return create(met);
    if (choice < 12) return destroy();
    if (choice < 18) return fork(met);
    if (choice < 28) return truncate();
    if (choice < 55) return append_to(any_sequence(), met);
    if (choice < 75) return publish();
    if (choice < 92) return match(met);
    if (choice < 96) return unpin();
    return forget();
  }

  std::optional<std::string> create(Met& met) {
    if (sequences_.size() == kMaxSequences) return std::nullopt;
    keep({store_->create_sequence(), {}}, met);
    twin_.create(last_id_);
    return std::nullopt;
  }

  std::optional<std::string> destroy() {
    const int64_t id = any_sequence().cached.id().value;
    sequences_.erase(id);
    twin_.destroy(id);
    return std::nullopt;
  }

  std::optional<std::string> fork(Met& met) {
    if (sequences_.size() == kMaxSequences) return std::nullopt;
    const TokenSequence& source = any_sequence();
    const int64_t from = source.cached.id().value;
    keep({store_->fork(source.cached), source.tokens}, met);
    twin_.fork(from, last_id_);
    return std::nullopt;
  }

  std::optional<std::string> truncate() {
    TokenSequence& seq = any_sequence();
    const auto length = static_cast<int64_t>(seq.tokens.size());
    const int64_t target = pick(0, 2) == 0 ? pick(0, length) : std::max<int64_t>(0, length - 20);
    const auto result = store_->truncate(seq.cached, target);
    if (result.ok()) seq.tokens = first_of(seq.tokens, target);
    if (result.ok() == twin_.truncate(seq.cached.id().value, target)) return std::nullopt;
    return fmt::format("rollback to {} was {}", target, result.ok() ? "granted" : "refused");
  }

  std::optional<std::string> append_to(TokenSequence& seq, Met& met) {
    const int64_t room = kMaxLength - static_cast<int64_t>(seq.tokens.size());
    const int64_t count = std::min(room, pick(0, 2) == 0 ? pick(1, 4) : pick(1, 150));
    if (count <= 0) return std::nullopt;
    const Tokens more = random_tokens(count);
    const bool granted = append(*store_, seq, more);
    met.refusals += granted ? 0 : 1;
    if (granted == twin_.append(seq.cached.id().value, more)) return std::nullopt;
    return fmt::format("{} more tokens were {}", count, granted ? "granted" : "refused");
  }

  std::optional<std::string> publish() {
    TokenSequence& seq = any_sequence();
    const bool with_tail = pick(0, 2) > 0;
    store_->publish(key_, seq.cached, seq.tokens,
                    with_tail ? PublishTail::kShare : PublishTail::kLeave);
    twin_.publish(seq.cached.id().value, with_tail);
    texts_.push_back(seq.tokens);
    return std::nullopt;
  }

  std::optional<std::string> match(Met& met) {
    Tokens prompt = random_prompt();
    PrefixMatch found = store_->match(key_, prompt);
    const NaivePrefixStore::Match expected = twin_.match(prompt);
    if (found.tokens != expected.tokens) {
      return fmt::format("{} of {} tokens matched, not {}", found.tokens, prompt.size(),
                         expected.tokens);
    }
    if (auto difference = compare_miss(found, expected, prompt)) return difference;
    if (found.miss) ++met.misses[found.miss->reason];
    met.partial_matches += found.tokens % kPageTokens != 0 ? 1 : 0;
    if (sequences_.size() < kMaxSequences) {
      keep({store_->adopt(found), first_of(prompt, found.tokens)}, met);
      twin_.adopt(last_id_, expected, prompt);
    }
    if (found.pin && pins_.size() < 2 && pick(0, 3) == 0) {
      twin_.pin(expected.node_id, 1);
      pins_.push_back({std::move(found.pin), expected.node_id});
    }
    return std::nullopt;
  }

  static std::optional<std::string> compare_miss(const PrefixMatch& found,
                                                 const NaivePrefixStore::Match& expected,
                                                 const Tokens& prompt) {
    const bool misses = found.tokens + 1 < static_cast<int64_t>(prompt.size());
    if (found.miss.has_value() != misses) return "a miss where there is none, or none where one is";
    if (!misses) return std::nullopt;
    const PrefixMiss& miss = *found.miss;
    const bool window = miss.reason == MissReason::kWindowPageGone;
    if (window != (found.tokens < expected.known)) {
      return fmt::format("{} of {} known tokens: {}", found.tokens, expected.known,
                         name(miss.reason));
    }
    if (miss.token_index != (window ? found.tokens : expected.known)) return "another token index";
    if (miss.cost_tokens != static_cast<int64_t>(prompt.size()) - found.tokens) return "cost";
    if (miss.reason != MissReason::kTokenDiffers) return std::nullopt;
    if (miss.got != prompt[static_cast<size_t>(miss.token_index)]) return "got another token";
    if (!miss.expected || miss.expected == miss.got) return "expected what it got";
    return std::nullopt;
  }

  std::optional<std::string> unpin() {
    if (pins_.empty()) return std::nullopt;
    twin_.pin(pins_.back().second, -1);
    pins_.pop_back();
    return std::nullopt;
  }

  std::optional<std::string> forget() {
    store_->forget_prefixes();
    twin_.forget();
    return std::nullopt;
  }

  std::optional<std::string> compare() {
    const KvStats stats = store_->stats();
    for (size_t g = 0; g < stats.groups.size(); ++g) {
      if (stats.groups[g].pages_held != twin_.pages_held(g)) {
        return fmt::format("group {} holds {} pages, not {}", g, stats.groups[g].pages_held,
                           twin_.pages_held(g));
      }
    }
    if (stats.prefix_nodes != static_cast<int64_t>(twin_.nodes().size())) {
      return fmt::format("{} nodes, not {}", stats.prefix_nodes, twin_.nodes().size());
    }
    if (stats.bytes_prefix != twin_.prefix_bytes()) {
      return fmt::format("{} bytes in the tree, not {}", stats.bytes_prefix, twin_.prefix_bytes());
    }
    for (const auto& [id, seq] : sequences_) {
      if (seq.tokens != twin_.sequences().at(id).tokens) return "other tokens";
      if (auto wrong = find_wrong_row(*store_, seq)) {
        return fmt::format("sequence {}: wrong row at {}", id, *wrong);
      }
    }
    return std::nullopt;
  }

  void keep(TokenSequence seq, Met& met) {
    last_id_ = seq.cached.id().value;
    sequences_[last_id_] = std::move(seq);
    ++met.sequences;
  }

  std::mt19937 random_;
  std::unique_ptr<KvStore> store_;
  NaivePrefixStore twin_;
  IdentityKey key_;
  std::map<int64_t, TokenSequence> sequences_;
  std::vector<std::pair<PrefixPin, int64_t>> pins_;
  std::vector<Tokens> texts_;  // that were published
  int64_t last_id_ = 0;
};

class PrefixOperations : public testing::TestWithParam<Config> {};

TEST_P(PrefixOperations, LeaveTheStoreEqualToItsNaiveTwin) {
  Met met;
  const int wanted = sequences_wanted();
  for (uint32_t seed = 0; met.sequences < wanted; ++seed) {
    PrefixRun run(GetParam(), seed, PrefixFault::kNone);
    ASSERT_EQ(run.play(kOperations, met), std::nullopt) << "seed " << seed;
  }
  EXPECT_GT(met.evicted, wanted / 8);
  EXPECT_GT(met.partial_matches, wanted / 20);
  EXPECT_GT(met.misses[MissReason::kTokenDiffers], 0);
  EXPECT_GT(met.misses[MissReason::kEvicted], 0);
  EXPECT_GT(met.misses[MissReason::kCold], 0);
  const bool has_windows = std::ranges::any_of(
      GetParam().layers, [](const LayerKv& layer) { return layer.window_tokens > 0; });
  EXPECT_EQ(met.misses[MissReason::kWindowPageGone] > 0, has_windows);
  if (GetParam().prefix.hash_bits < 8) EXPECT_GT(met.collisions, wanted / 8);
  if (GetParam().name != "SmallTree") EXPECT_GT(met.refusals, 0);
}

std::string config_name(const testing::TestParamInfo<Config>& info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(KvStore, PrefixOperations, testing::ValuesIn(configs()), config_name);

class PlantedPrefixFault : public testing::TestWithParam<PrefixFault> {};

TEST_P(PlantedPrefixFault, IsFoundByRandomOperations) {
  bool found = false;
  Met met;
  for (uint32_t seed = 0; seed < 200 && !found; ++seed) {
    for (const Config& config : configs()) {
      found = found || PrefixRun(config, seed, GetParam()).play(kOperations, met).has_value();
    }
  }
  EXPECT_TRUE(found);
}

INSTANTIATE_TEST_SUITE_P(
    KvStore, PlantedPrefixFault,
    testing::Values(PrefixFault::kMatchesTheLastToken, PrefixFault::kNeedsOneKeyLess,
                    PrefixFault::kEvictsTheNewestFirst, PrefixFault::kEvictsPinnedLeaves,
                    PrefixFault::kKeepsTwoCopies, PrefixFault::kForgetsToMark));

}  // namespace
}  // namespace quire::kv
