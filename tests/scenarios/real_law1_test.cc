// Law 1 on the real models: hot equals cold, bit for bit.
#include <gtest/gtest.h>

#include "base/private_file.h"
#include "engine/kv_plan.h"
#include "engine/tiny_models.h"
#include "kernels/same_bits.h"
#include "scenarios/real_model.h"

namespace quire::engine {
namespace {

using kv::Codec;

constexpr size_t kDecodeSteps = 4;

using kernels::same_bits;

class RealLaw1 : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const auto path = real_model(GetParam());
    QUIRE_SKIP_WITHOUT(GetParam(), path);
    model_ = load_or_die(*path);
    text_ = real_prose(GetParam());
  }

  /// Logits after the first `count` tokens of the text, prefilled in steps of `chunk`, and after
  /// each of some more that are decoded one by one.
  std::vector<float> last_logits(Engine& engine, Sequence& sequence, size_t count, size_t chunk) {
    std::vector<float> all;
    const auto keep = [&](std::span<const float> logits) {
      all.insert(all.end(), logits.begin(), logits.end());
    };
    std::span<const TokenId> prompt = std::span(text_).first(count);
    prompt = prompt.subspan(static_cast<size_t>(sequence.length()));
    while (!prompt.empty()) {
      const size_t take = std::min(chunk, prompt.size());
      const auto logits = engine.append(sequence, prompt.first(take));
      prompt = prompt.subspan(take);
      if (prompt.empty()) keep(*logits);
    }
    for (size_t i = 0; i < kDecodeSteps; ++i) {
      keep(engine.append(sequence, std::span(text_).subspan(count + i, 1)).value());
    }
    engine.check();
    return all;
  }

  std::vector<float> run(EngineOptions options, size_t count, size_t chunk) {
    const auto engine = engine_or_die(*model_, options);
    Sequence sequence = engine->create_sequence();
    return last_logits(*engine, sequence, count, chunk);
  }

  std::unique_ptr<Model> model_;
  std::vector<TokenId> text_;
};

TEST_P(RealLaw1, ThreadsAndChunksChangeNothing) {
  // 700 tokens: past Gemma's window of 512 and into a third split.
  const std::vector<float> reference = run({.threads = 1}, 700, 512);
  for (const size_t chunk : {1, 7, 64, 512}) {
    EXPECT_TRUE(same_bits(run({.threads = 2}, 700, chunk), reference)) << chunk;
  }
}

TEST_P(RealLaw1, NoCacheAndPagedCacheAgreeAtEveryCodec) {
  for (const Codec codec : {Codec::F32, Codec::F16, Codec::BF16}) {
    const EngineOptions cached{.threads = 2, .kv = {codec, codec}};
    EngineOptions uncached = cached;
    uncached.cache = CacheKind::kNone;
    EXPECT_TRUE(same_bits(run(cached, 200, 64), run(uncached, 200, 512))) << kv::name(codec);
  }
}

TEST_P(RealLaw1, LossyCodecsAndSlidingWindowsGiveTheBitsOfNoCache) {
  for (const auto& [cache, kv] : {std::pair("dynamic", "q8"), std::pair("dynamic", "q6/q4"),
                                  std::pair("sliding:100+4", "f16"), std::pair("static", "q4")}) {
    EngineOptions cached{.threads = 2, .context_tokens = 1024};
    cached.cache = parse_cache_policy(cache).value();
    cached.kv = kv::codecs_from_name(kv).value();
    EngineOptions uncached = cached;
    uncached.cache.kind = CacheKind::kNone;
    EXPECT_TRUE(same_bits(run(cached, 260, 60), run(uncached, 260, 512))) << cache << " " << kv;
  }
}

TEST_P(RealLaw1, ThreadsAndChunksChangeNothingInSealedPages) {
  const EngineOptions options{.threads = 1, .kv = {Codec::Q8, Codec::Q4}};
  const std::vector<float> reference = run(options, 700, 512);
  for (const size_t chunk : {1, 64, 200}) {
    EngineOptions threaded = options;
    threaded.threads = 2;
    EXPECT_TRUE(same_bits(run(threaded, 700, chunk), reference)) << chunk;
  }
}

TEST_P(RealLaw1, AnOffloadedCacheGivesTheBitsOfOneInMemory) {
  constexpr int64_t kTokens = 1500;
  constexpr int32_t kChunk = 64;
  if (const auto file = create_private_file("."); !file.ok()) GTEST_SKIP() << file.error().message;
  for (const char* kv : {"f16", "q8"}) {
    EngineOptions memory{.threads = 2, .prefill_chunk = kChunk};
    memory.kv = kv::codecs_from_name(kv).value();
    EngineOptions disk = memory;
    disk.open_spill_file = [] { return create_private_file("."); };
    disk.spill_room = [] { return free_disk_bytes("."); };
    const auto geometry = kv_geometry(model_->config(), memory.kv).value();
    int64_t budget = int64_t{1} << 20;
    while (offloadable_tokens(geometry, {budget, int64_t{1} << 30}, kTokens + 10, kChunk) <
           kTokens + 10) {
      budget += int64_t{1} << 18;
    }
    ASSERT_LT(budget, geometry.held_bytes(kTokens));
    disk.cache.offload_bytes = budget;
    const auto engine = engine_or_die(*model_, disk);
    Sequence sequence = engine->create_sequence();
    const std::vector<float> offloaded = last_logits(*engine, sequence, kTokens, kChunk);
    EXPECT_GT(engine->kv_stats().bytes_spilled, 0);
    EXPECT_LE(engine->kv_stats().bytes_peak, budget);
    EXPECT_TRUE(same_bits(offloaded, run(memory, kTokens, 512))) << kv;
  }
}

TEST_P(RealLaw1, ASequenceAmongSevenOthersIsAlone) {
  const auto engine = engine_or_die(*model_, {.threads = 2});
  const auto vocab = static_cast<size_t>(model_->config().vocab);
  std::vector<Sequence> sequences;
  for (size_t i = 0; i < 8; ++i) {
    sequences.push_back(engine->create_sequence());
    // Different lengths, so that the eight stand at different places of their pages.
    const size_t begin = i == 5 ? 0 : 30 * i;
    const size_t count = i == 5 ? 150 : 20 + 17 * i;
    ASSERT_TRUE(engine->append(sequences.back(), std::span(text_).subspan(begin, count)).ok());
  }
  std::vector<float> among;
  std::vector<float> logits(8 * vocab);
  for (size_t step = 0; step < kDecodeSteps; ++step) {
    std::vector<StepItem> items;
    for (size_t i = 0; i < 8; ++i) {
      const size_t at = i == 5 ? 150 + step : 400 + 9 * i + step;
      items.push_back({.sequence = &sequences[i], .tokens = std::span(text_).subspan(at, 1)});
    }
    ASSERT_TRUE(engine->step(items, logits).ok());
    among.insert(among.end(), logits.begin() + static_cast<std::ptrdiff_t>(5 * vocab),
                 logits.begin() + static_cast<std::ptrdiff_t>(6 * vocab));
  }
  const std::vector<float> alone = run({.threads = 2}, 150, 150);
  EXPECT_TRUE(same_bits(among, std::span(alone).subspan(vocab)));
}

TEST_P(RealLaw1, AForkedSequenceEqualsItsTwin) {
  const auto engine = engine_or_die(*model_, {.threads = 2});
  Sequence original = engine->create_sequence();
  ASSERT_TRUE(engine->append(original, std::span(text_).first(100)).ok());
  Sequence twin = engine->fork(original);
  ASSERT_TRUE(engine->append(original, std::span(text_).subspan(300, 40)).ok());
  EXPECT_TRUE(same_bits(last_logits(*engine, twin, 180, 64), run({.threads = 2}, 180, 512)));
}

TEST_P(RealLaw1, InstructionSetsAgree) {
  // The scalar form is slow: few tokens.
  const std::vector<float> reference = run({.threads = 2, .isa = "scalar"}, 12, 12);
  for (const char* isa : {"avx2", "avx512"}) {
    if (!kernels::select_kernels(isa).ok()) continue;
    EXPECT_TRUE(same_bits(run({.threads = 2, .isa = isa}, 12, 5), reference)) << isa;
  }
  if (!kernels::select_kernels("avx512").ok()) return;
  EXPECT_TRUE(same_bits(run({.threads = 2, .isa = "avx2"}, 600, 512),
                        run({.threads = 2, .isa = "avx512"}, 600, 512)));
}

INSTANTIATE_TEST_SUITE_P(All, RealLaw1, testing::Values("smollm2", "gemma3"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace quire::engine
