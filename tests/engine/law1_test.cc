// Law 1: hot equals cold, bit for bit. Every comparison here is of bytes.
#include <gtest/gtest.h>

#include "engine/tiny_models.h"
#include "kernels/same_bits.h"

namespace quire::engine {
namespace {

using kv::Codec;
using kv::KvCodecs;

using kernels::same_bits;

class Law1 : public testing::TestWithParam<TinyModel> {
 protected:
  void SetUp() override {
    model_ = load_or_die(GetParam().path);
    golden_ = read_golden(GetParam());
    reference_ = run({}, golden_.tokens.size());
  }

  /// Logits of all golden tokens, from an engine of these options, in chunks of `chunk`.
  std::vector<float> run(EngineOptions options, size_t chunk) {
    const auto engine = engine_or_die(*model_, options);
    Sequence sequence = engine->create_sequence();
    return all_logits(*engine, sequence, golden_.tokens, chunk);
  }
  void expect_alone_among_seven_others(bool all_wanted);

  std::unique_ptr<Model> model_;
  Golden golden_;
  std::vector<float> reference_;  // all tokens in one chunk, one thread, f16
};

TEST_P(Law1, ThreadsChangeNothing) {
  for (const int32_t threads : {2, 3}) {
    EXPECT_TRUE(same_bits(run({.threads = threads}, 64), reference_)) << threads;
    EXPECT_TRUE(same_bits(run({.threads = threads}, 1), reference_)) << threads;
  }
}

TEST_P(Law1, PrefillChunksAndDecodeChangeNothing) {
  for (const size_t chunk : {1, 7, 64, 512}) {
    EXPECT_TRUE(same_bits(run({}, chunk), reference_)) << chunk;
  }
}

TEST_P(Law1, NoCacheAndPagedCacheAgreeAtEveryCodec) {
  const std::span<const TokenId> prompt = std::span(golden_.tokens).first(100);
  for (const Codec codec : {Codec::F32, Codec::F16, Codec::BF16}) {
    const auto cached = engine_or_die(*model_, {.threads = 2, .kv = {codec, codec}});
    const auto uncached = engine_or_die(
        *model_, {.cache = CacheKind::kNone, .kv = {codec, codec}, .prefill_chunk = 33});
    Sequence hot = cached->create_sequence();
    Sequence cold = uncached->create_sequence();
    ASSERT_TRUE(
        same_bits(cached->append(hot, prompt).value(), uncached->append(cold, prompt).value()));
    for (size_t i = 100; i < golden_.tokens.size(); i += 1) {
      const std::span<const TokenId> next(&golden_.tokens[i], 1);
      ASSERT_TRUE(
          same_bits(cached->append(hot, next).value(), uncached->append(cold, next).value()))
          << kv::name(codec) << " at " << i;
    }
  }
}

TEST_P(Law1, CodecsMatter) {
  // Else the comparison above would hold because the codec is ignored.
  EXPECT_FALSE(same_bits(run({.kv = {Codec::F32, Codec::F32}}, 64), reference_));
  EXPECT_FALSE(same_bits(run({.kv = {Codec::BF16, Codec::F16}}, 64), reference_));
}

/// Which logits sequence `s` wants where not all of them are wanted.
StepItem::Logits wanted_of(size_t s) {
  if (s == 3 || s % 3 == 2) return StepItem::Logits::kAll;
  return s % 3 == 0 ? StepItem::Logits::kNone : StepItem::Logits::kLast;
}

void Law1::expect_alone_among_seven_others(bool all_wanted) {
  const auto engine = engine_or_die(*model_, {.threads = 2});
  const auto vocab = static_cast<size_t>(model_->config().vocab);
  std::vector<Sequence> sequences;
  for (int i = 0; i < 8; ++i) sequences.push_back(engine->create_sequence());
  std::vector<float> logits(512 * vocab);
  std::vector<float> ours;
  // Sequence 3 reads the golden text in pieces of 11; the others read it shifted, in other pieces,
  // some joining late.
  for (size_t done = 0, step = 0; done < golden_.tokens.size(); ++step) {
    std::vector<StepItem> items;
    size_t rows_before = 0;
    const size_t take = std::min<size_t>(11, golden_.tokens.size() - done);
    for (size_t s = 0; s < sequences.size(); ++s) {
      const size_t have = static_cast<size_t>(sequences[s].length());
      const size_t shift = s == 3 ? 0 : s;
      const size_t wanted = s == 3 ? take : 1 + (s * 5 + step) % 13;
      if (s != 3 && (step < s / 2 || have + wanted + shift > golden_.tokens.size())) continue;
      const StepItem::Logits logits_of = all_wanted ? StepItem::Logits::kAll : wanted_of(s);
      if (s < 3 && logits_of != StepItem::Logits::kNone) {
        rows_before += logits_of == StepItem::Logits::kAll ? wanted : 1;
      }
      items.push_back({.sequence = &sequences[s],
                       .tokens = std::span(golden_.tokens).subspan(have + shift, wanted),
                       .logits = logits_of});
    }
    ASSERT_TRUE(engine->step(items, logits).ok());
    engine->check();
    const auto first = logits.begin() + static_cast<std::ptrdiff_t>(rows_before * vocab);
    ours.insert(ours.end(), first, first + static_cast<std::ptrdiff_t>(take * vocab));
    done += take;
  }
  EXPECT_TRUE(same_bits(ours, reference_)) << (all_wanted ? "all" : "few") << " logits wanted";
}

TEST_P(Law1, ASequenceAmongSevenOthersIsAlone) {
  for (const bool all_wanted : {true, false}) expect_alone_among_seven_others(all_wanted);
}

TEST_P(Law1, AForkedSequenceEqualsItsTwin) {
  const auto engine = engine_or_die(*model_, {});
  const std::span<const TokenId> tokens = golden_.tokens;
  const auto vocab = static_cast<size_t>(model_->config().vocab);
  for (const size_t at : {1, 63, 64, 65, 100}) {
    Sequence original = engine->create_sequence();
    ASSERT_TRUE(engine->append(original, tokens.first(at)).ok());
    Sequence twin = engine->fork(original);
    // The original goes elsewhere first: what it writes must not show in the twin.
    ASSERT_TRUE(engine->append(original, tokens.first(20)).ok());
    const std::vector<float> rest = all_logits(*engine, twin, tokens.subspan(at), 16);
    EXPECT_TRUE(same_bits(rest, std::span(reference_).subspan(at * vocab))) << at;
  }
}

TEST_P(Law1, ATruncatedSequenceGoesOnAsIfNothingHadBeen) {
  const auto engine = engine_or_die(*model_, {});
  const std::span<const TokenId> tokens = golden_.tokens;
  const auto vocab = static_cast<size_t>(model_->config().vocab);
  Sequence sequence = engine->create_sequence();
  ASSERT_TRUE(engine->append(sequence, tokens).ok());
  for (const int64_t length : {149, 129, 128, 64, 40, 1}) {
    ASSERT_TRUE(engine->append(sequence, tokens.first(30)).ok());  // a branch to be forgotten
    ASSERT_TRUE(engine->truncate(sequence, length).ok());
    engine->check();
    const auto at = static_cast<size_t>(length);
    const std::vector<float> rest = all_logits(*engine, sequence, tokens.subspan(at), 37);
    ASSERT_TRUE(same_bits(rest, std::span(reference_).subspan(at * vocab))) << length;
  }
}

TEST_P(Law1, InstructionSetsAgree) {
  for (const char* isa : {"scalar", "avx2", "avx512"}) {
    const auto set = kernels::select_kernels(isa);
    if (!set.ok()) continue;  // a machine without it
    EXPECT_TRUE(same_bits(run({.isa = isa}, 150), reference_)) << isa;
    EXPECT_TRUE(same_bits(run({.isa = isa}, 13), reference_)) << isa;
  }
}

TEST_P(Law1, InstructionSetsAgreeWithF32Activations) {
  EngineOptions options{.activations = kernels::ActivationPolicy::kF32};
  options.isa = "scalar";
  const std::vector<float> scalar = run(options, 50);
  for (const char* isa : {"avx2", "avx512"}) {
    if (!kernels::select_kernels(isa).ok()) continue;
    options.isa = isa;
    EXPECT_TRUE(same_bits(run(options, 50), scalar)) << isa;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Law1, testing::ValuesIn(tiny_models()),
                         [](const auto& test) { return test_name(test.param); });

}  // namespace
}  // namespace quire::engine
