// Law 1 for what changes the answers: lossy codecs and sliding windows. Each gives its own bits,
// and always the same ones.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/tiny_models.h"
#include "kernels/same_bits.h"

namespace quire::engine {
namespace {

using kernels::same_bits;

struct Choice {
  std::string cache;
  std::string kv;
};

EngineOptions options_of(const Choice& choice) {
  EngineOptions options;
  options.cache = parse_cache_policy(choice.cache).value();
  options.kv = kv::codecs_from_name(choice.kv).value();
  return options;
}

const std::vector<Choice>& choices() {
  static const std::vector<Choice> all = {
      {"dynamic", "q8"},       {"dynamic", "q6/q4"},    {"dynamic", "q3/f16"},
      {"dynamic", "f16/q2"},   {"sliding:20+4", "f16"}, {"sliding:70", "f32"},
      {"sliding:30+70", "q4"}, {"static", "q8"},        {"static,sliding:65+1", "f16"}};
  return all;
}

class CacheLaw1 : public testing::TestWithParam<TinyModel> {
 protected:
  void SetUp() override {
    model_ = load_or_die(GetParam().path);
    golden_ = read_golden(GetParam());
  }

  std::vector<float> run(EngineOptions options, size_t chunk) {
    const auto engine = engine_or_die(*model_, options);
    Sequence sequence = engine->create_sequence();
    return all_logits(*engine, sequence, golden_.tokens, chunk);
  }

  size_t vocab() const { return static_cast<size_t>(model_->config().vocab); }

  std::unique_ptr<Model> model_;
  Golden golden_;
};

TEST_P(CacheLaw1, ChunksThreadsAndInstructionSetsChangeNothing) {
  for (const Choice& choice : choices()) {
    SCOPED_TRACE(choice.cache + " " + choice.kv);
    EngineOptions options = options_of(choice);
    const std::vector<float> reference = run(options, golden_.tokens.size());
    for (const size_t chunk : {1, 37, 64}) {
      EXPECT_TRUE(same_bits(run(options, chunk), reference)) << chunk;
    }
    options.threads = 3;
    EXPECT_TRUE(same_bits(run(options, 41), reference));
    for (const char* isa : {"scalar", "avx2", "avx512"}) {
      if (!kernels::select_kernels(isa).ok()) continue;
      options.isa = isa;
      EXPECT_TRUE(same_bits(run(options, 100), reference)) << isa;
    }
  }
}

TEST_P(CacheLaw1, RecomputingEverythingGivesTheSameBits) {
  for (const Choice& choice : choices()) {
    SCOPED_TRACE(choice.cache + " " + choice.kv);
    EngineOptions options = options_of(choice);
    const auto cached = engine_or_die(*model_, options);
    options.cache.kind = CacheKind::kNone;
    options.prefill_chunk = 33;
    const auto uncached = engine_or_die(*model_, options);
    const std::span<const TokenId> tokens = golden_.tokens;
    Sequence hot = cached->create_sequence();
    Sequence cold = uncached->create_sequence();
    for (size_t begin = 0; begin < tokens.size();) {
      const size_t take = begin == 0 ? 120 : std::min<size_t>(5, tokens.size() - begin);
      const auto next = tokens.subspan(begin, take);
      ASSERT_TRUE(
          same_bits(cached->append(hot, next).value(), uncached->append(cold, next).value()))
          << "at " << begin;
      begin += take;
    }
    cached->check();
  }
}

TEST_P(CacheLaw1, AForkedOrTruncatedSequenceGoesOnAsIfNothingHadBeen) {
  for (const Choice& choice : choices()) {
    if (choice.cache.starts_with("static")) continue;  // made for one sequence
    SCOPED_TRACE(choice.cache + " " + choice.kv);
    const std::vector<float> reference = run(options_of(choice), golden_.tokens.size());
    const auto engine = engine_or_die(*model_, options_of(choice));
    const std::span<const TokenId> tokens = golden_.tokens;
    for (const size_t at : {40, 64, 127, 128, 130}) {
      Sequence original = engine->create_sequence();
      ASSERT_TRUE(engine->append(original, tokens.first(at)).ok());
      Sequence twin = engine->fork(original);
      ASSERT_TRUE(engine->append(original, tokens.first(20)).ok());
      const std::vector<float> rest = all_logits(*engine, twin, tokens.subspan(at), 16);
      EXPECT_TRUE(same_bits(rest, std::span(reference).subspan(at * vocab()))) << "fork at " << at;
      engine->check();
    }
    Sequence sequence = engine->create_sequence();
    ASSERT_TRUE(engine->append(sequence, tokens).ok());
    for (const size_t at : {149, 128, 127, 100, 64, 10}) {
      ASSERT_TRUE(engine->append(sequence, tokens.first(70)).ok());  // a branch to be forgotten
      ASSERT_TRUE(engine->truncate(sequence, static_cast<int64_t>(at)).ok());
      engine->check();
      const std::vector<float> rest = all_logits(*engine, sequence, tokens.subspan(at), 37);
      EXPECT_TRUE(same_bits(rest, std::span(reference).subspan(at * vocab())))
          << "rolled back to " << at;
    }
  }
}

TEST_P(CacheLaw1, SealedPagesAndWindowsMatter) {
  // Else the comparisons above would hold because the choice is ignored.
  const std::vector<float> plain = run({}, 64);
  for (const char* kv : {"q8", "q4/f16", "f16/q4"}) {
    const std::vector<float> lossy = run(options_of({"dynamic", kv}), 64);
    const auto same = std::ranges::mismatch(plain, lossy).in1 - plain.begin();
    // Page 0 is read open, and so is every query's own page: the third page is the first to differ.
    EXPECT_EQ(same / static_cast<std::ptrdiff_t>(vocab()), 128) << kv;
  }
  const std::vector<float> sliding = run(options_of({"sliding:20+4", "f16"}), 64);
  EXPECT_FALSE(same_bits(sliding, plain));
  EXPECT_TRUE(same_bits(run(options_of({"sliding:1000+4", "f16"}), 64), plain));
}

TEST_P(CacheLaw1, AStaticCacheHoldsItsWholeWindowFromTheStart) {
  EngineOptions options = options_of({"static", "f16"});
  const auto engine = engine_or_die(*model_, options);
  const int64_t held = engine->kv_stats().bytes_held;
  EXPECT_EQ(held,
            engine->geometry().peak_bytes(engine->window().tokens, engine->max_step_tokens()));
  Sequence sequence = engine->create_sequence();
  ASSERT_TRUE(engine->append(sequence, golden_.tokens).ok());
  EXPECT_EQ(engine->kv_stats().bytes_held, held);
  EXPECT_EQ(engine->kv_stats().bytes_used,
            engine->geometry().used_bytes(static_cast<int64_t>(golden_.tokens.size())));
}

INSTANTIATE_TEST_SUITE_P(All, CacheLaw1, testing::ValuesIn(tiny_models()),
                         [](const auto& test) { return test_name(test.param); });

TEST(StaticCache, IsRefusedAtTheStartWithTheNumbersWhenItDoesNotFit) {
  const auto model = load_or_die(tiny_models().front().path);
  EngineOptions options{.cache = CacheKind::kStatic, .static_sequences = 1000};
  options.memory_bytes = 1 << 20;
  const auto engine = Engine::create(*model, options);
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().code, ErrorCode::kDoesNotFit);
  EXPECT_NE(engine.error().message.find("1048576"), std::string::npos) << engine.error().message;
}

TEST(CachePolicy, ReadsBackWhatItPrints) {
  for (const char* text :
       {"dynamic", "static", "none", "sliding:1024", "sliding:1024+4", "static,sliding:256+4",
        "none,sliding:8", "offloaded:209715200", "sliding:1024+4,offloaded:209715200"}) {
    EXPECT_EQ(name(parse_cache_policy(text).value()), text);
  }
  EXPECT_EQ(name(parse_cache_policy("offloaded:200M,sliding:7").value()),
            "sliding:7,offloaded:209715200");
}

TEST(CachePolicy, SaysWhatIsWrong) {
  const auto message = [](std::string_view text) {
    const auto policy = parse_cache_policy(text);
    return policy.ok() ? std::string("no error") : policy.error().message;
  };
  EXPECT_EQ(message("quantized"),
            "quantized is chosen by --kv: q8, q6, q4, q3 or a pair such as q6/q4");
  EXPECT_NE(message("sliding").find("sliding:1024+4"), std::string::npos);
  EXPECT_NE(message("sliding:0").find("'0'"), std::string::npos);
  EXPECT_NE(message("sliding:5+-1").find("'5+-1'"), std::string::npos);
  EXPECT_NE(message("sliding:99999999999").find("99999999999"), std::string::npos);
  EXPECT_NE(message("dynamic,none").find("only one"), std::string::npos);
  EXPECT_NE(message("static,offloaded:1G").find("static"), std::string::npos);
  EXPECT_NE(message("none,offloaded:1G").find("none"), std::string::npos);
  EXPECT_NE(message("offloaded:lots").find("'lots'"), std::string::npos);
  EXPECT_NE(message("").find("dynamic"), std::string::npos);
  EXPECT_NE(message("frozen").find("'frozen'"), std::string::npos);
}

}  // namespace
}  // namespace quire::engine
