// A sequence larger than its memory gives the bits of one that fits, and survives its disk.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/kv_plan.h"
#include "engine/tiny_models.h"
#include "kernels/same_bits.h"
#include "kv/fake_private_file.h"
#include "kv/spill_plan.h"

namespace quire::engine {
namespace {

using kernels::same_bits;

/// Repeats the golden text to several pages.
std::vector<TokenId> long_text(const Golden& golden, size_t tokens) {
  std::vector<TokenId> text;
  while (text.size() < tokens) {
    const size_t take = std::min(tokens - text.size(), golden.tokens.size());
    text.insert(text.end(), golden.tokens.begin(),
                golden.tokens.begin() + static_cast<std::ptrdiff_t>(take));
  }
  return text;
}

class Offload : public testing::TestWithParam<TinyModel> {
 protected:
  static constexpr int32_t kChunk = 32;

  void SetUp() override {
    model_ = load_or_die(GetParam().path);
    const auto geometry = kv_geometry(model_->config(), {}).value();
    const auto& groups = geometry.groups();
    if (std::ranges::none_of(groups, [&](const auto& g) {
          return !g.is_window() && kv::gains_by_spilling(geometry, g);
        })) {
      GTEST_SKIP() << "the layers that see everything are no more than the buffers hold";
    }
    text_ = long_text(read_golden(GetParam()),
                      static_cast<size_t>(std::min<int64_t>(500, model_->config().context)));
  }

  EngineOptions options(std::string_view codecs) const {
    EngineOptions options{.prefill_chunk = kChunk};
    options.kv = kv::codecs_from_name(codecs).value();
    return options;
  }

  /// With the least memory that the text fits.
  EngineOptions offloaded(std::string_view codecs) const {
    EngineOptions result = options(codecs);
    const auto geometry = kv_geometry(model_->config(), result.kv).value();
    const auto length = static_cast<int64_t>(text_.size());
    int64_t bytes = 4096;
    while (offloadable_tokens(geometry, {bytes, int64_t{1} << 30}, length, kChunk) < length) {
      bytes += 4096;
    }
    result.cache.offload_bytes = bytes;
    result.spill_room = [] { return Result<int64_t>(int64_t{1} << 30); };
    result.open_spill_file = [faults = faults_] {
      return Result<std::unique_ptr<PrivateFile>>(std::make_unique<FakePrivateFile>(faults));
    };
    return result;
  }

  std::unique_ptr<Model> model_;
  std::vector<TokenId> text_;
  std::shared_ptr<DiskFaults> faults_ = std::make_shared<DiskFaults>();
};

TEST_P(Offload, GivesTheBitsOfACacheInMemory) {
  for (const char* codecs : {"f16", "q8", "q4/f16"}) {
    SCOPED_TRACE(codecs);
    const auto memory = engine_or_die(*model_, options(codecs));
    const auto disk = engine_or_die(*model_, offloaded(codecs));
    Sequence in_memory = memory->create_sequence();
    Sequence on_disk = disk->create_sequence();
    int64_t most_spilled = 0;
    for (size_t begin = 0; begin < text_.size();) {
      const size_t take =
          std::min<size_t>(begin + 100 < text_.size() ? 100 : 1, text_.size() - begin);
      const auto next = std::span<const TokenId>(text_).subspan(begin, take);
      ASSERT_TRUE(
          same_bits(memory->append(in_memory, next).value(), disk->append(on_disk, next).value()))
          << "at " << begin;
      disk->check();
      most_spilled = std::max(most_spilled, disk->kv_stats().bytes_spilled);
      begin += take;
    }
    // Windows may leave so little that the floor of an offloaded cache holds it all.
    const int64_t all = disk->geometry().peak_bytes(static_cast<int64_t>(text_.size()), kChunk);
    if (all > *disk->cache().offload_bytes) EXPECT_GT(most_spilled, 0);
    EXPECT_LE(disk->kv_stats().bytes_peak, *disk->cache().offload_bytes);
    EXPECT_EQ(disk->kv_stats().bytes_used, memory->kv_stats().bytes_used);
    { const Sequence gone = std::move(on_disk); }
    EXPECT_EQ(disk->kv_stats().bytes_spilled, 0);
    disk->check();
  }
}

TEST_P(Offload, ForksAndRollsBackIntoWhatIsOnTheDisk) {
  const auto memory = engine_or_die(*model_, options("f16"));
  EngineOptions roomier = offloaded("f16");
  *roomier.cache.offload_bytes += *roomier.cache.offload_bytes / 2;  // for a second last page
  const auto disk = engine_or_die(*model_, roomier);
  Sequence in_memory = memory->create_sequence();
  Sequence on_disk = disk->create_sequence();
  const std::span<const TokenId> text = text_;
  ASSERT_TRUE(memory->append(in_memory, text).ok());
  ASSERT_TRUE(disk->append(on_disk, text).ok());
  for (const int64_t length : {static_cast<int64_t>(text.size()) - 30, int64_t{200}, int64_t{70}}) {
    ASSERT_TRUE(memory->truncate(in_memory, length).ok());
    ASSERT_TRUE(disk->truncate(on_disk, length).ok());
    disk->check();
    Sequence twin = disk->fork(on_disk);
    ASSERT_TRUE(disk->append(on_disk, text.first(3)).ok());
    Sequence memory_twin = memory->fork(in_memory);
    ASSERT_TRUE(same_bits(memory->append(memory_twin, text.first(20)).value(),
                          disk->append(twin, text.first(20)).value()))
        << length;
    ASSERT_TRUE(memory->append(in_memory, text.first(3)).ok());
    disk->check();
  }
}

/// Whether the whole text needs the disk.
#define SKIP_UNLESS_SPILLED(engine)                                  \
  if ((engine).kv_stats().bytes_spilled == 0) {                      \
    GTEST_SKIP() << "the windows leave too little to spill at last"; \
  }

TEST_P(Offload, ComputesAnewWhatADiskLosesOrLiesAbout) {
  const auto memory = engine_or_die(*model_, options("f16"));
  Sequence in_memory = memory->create_sequence();
  const std::span<const TokenId> text = text_;
  const size_t last = text.size() - 1;
  ASSERT_TRUE(memory->append(in_memory, text.first(last)).ok());
  const auto next = text.subspan(last);
  const auto expected = memory->append(in_memory, next).value();
  for (const bool lies : {false, true}) {
    SCOPED_TRACE(lies ? "a flipped bit" : "a read error");
    const auto disk = engine_or_die(*model_, offloaded("f16"));
    Sequence on_disk = disk->create_sequence();
    ASSERT_TRUE(disk->append(on_disk, text.first(last)).ok());
    SKIP_UNLESS_SPILLED(*disk);
    (lies ? faults_->reads_until_lie : faults_->reads_until_error) = 2;
    const auto logits = disk->append(on_disk, next);
    ASSERT_TRUE(logits.ok()) << logits.error().message;
    EXPECT_TRUE(same_bits(*logits, expected));
    EXPECT_EQ(on_disk.length(), static_cast<int64_t>(text.size()));
    disk->check();
  }
}

TEST_P(Offload, EndsWithASentenceWhenTheDiskIsFullAndKeepsTheSequence) {
  const auto disk = engine_or_die(*model_, offloaded("f16"));
  Sequence sequence = disk->create_sequence();
  faults_->writes_until_full = 1;
  const auto refused = disk->append(sequence, text_);
  if (refused.ok()) GTEST_SKIP() << "the windows leave too little to spill";

  EXPECT_NE(refused.error().message.find("No space left on device"), std::string::npos)
      << refused.error().message;
  disk->check();
  EXPECT_EQ(faults_->writes, 2) << "nothing is computed anew because a write failed";
  // What was read until then is there; with room on the disk it goes on, to the same bits.
  const int64_t done = sequence.length();
  EXPECT_GT(done, 0);
  faults_->writes_until_full = INT64_MAX;
  const auto rest = std::span<const TokenId>(text_).subspan(static_cast<size_t>(done));
  const auto logits = disk->append(sequence, rest);
  ASSERT_TRUE(logits.ok()) << logits.error().message;
  const auto memory = engine_or_die(*model_, options("f16"));
  Sequence in_memory = memory->create_sequence();
  EXPECT_TRUE(same_bits(*logits, memory->append(in_memory, text_).value()));
}

TEST_P(Offload, RefusesAWindowThatMemoryAndDiskCannotHold) {
  EngineOptions small = offloaded("f16");
  small.context_tokens = static_cast<int64_t>(text_.size());
  small.cache.offload_bytes = *small.cache.offload_bytes - 4096;
  const auto engine = Engine::create(*model_, small);
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().code, ErrorCode::kDoesNotFit) << engine.error().message;

  EngineOptions no_disk = offloaded("f16");
  no_disk.context_tokens = static_cast<int64_t>(text_.size());
  no_disk.spill_room = [] { return Result<int64_t>(0); };
  EXPECT_FALSE(Engine::create(*model_, no_disk).ok());
}

INSTANTIATE_TEST_SUITE_P(All, Offload, testing::ValuesIn(tiny_models()),
                         [](const auto& test) { return test_name(test.param); });

}  // namespace
}  // namespace quire::engine
