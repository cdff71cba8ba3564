// Steps that run a few layers at a time: the bits of whole ones, whatever runs in between.
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "engine/tiny_models.h"

namespace quire::engine {
namespace {

class PartialSteps : public testing::TestWithParam<TinyModel> {
 protected:
  void SetUp() override {
    model_ = load_or_die(GetParam().path);
    golden_ = read_golden(GetParam()).tokens;
    vocab_ = static_cast<size_t>(model_->config().vocab);
  }

  std::span<const TokenId> tokens(size_t first, size_t count) const {
    return std::span(golden_).subspan(first, count);
  }

  /// Appends in one step. // the last token's logits
  std::vector<float> append(Engine& engine, Sequence& sequence, std::span<const TokenId> more) {
    const StepItem item{.sequence = &sequence, .tokens = more};
    std::vector<float> logits(vocab_);
    EXPECT_TRUE(engine.step({&item, 1}, logits).ok());
    return logits;
  }

  std::unique_ptr<Model> model_;
  std::vector<TokenId> golden_;
  size_t vocab_ = 0;
};

TEST_P(PartialSteps, HaveTheBitsOfWholeOnesWhileOthersRun) {
  const auto most = static_cast<int64_t>(golden_.size());
  const auto half = static_cast<size_t>(most / 2);
  const auto rest = static_cast<size_t>(most) - half;
  for (const EngineOptions& options :
       {EngineOptions{}, EngineOptions{.kv = {kv::Codec::Q8, kv::Codec::Q4}},
        EngineOptions{.cache = parse_cache_policy("sliding:20+3").value()}}) {
    const auto engine = engine_or_die(*model_, options);
    Sequence whole = engine->create_sequence();
    append(*engine, whole, tokens(0, half));
    const std::vector<float> expected = append(*engine, whole, tokens(half, rest));
    const std::vector<float> expected_next = append(*engine, whole, tokens(0, 1));

    Sequence parts = engine->create_sequence();
    append(*engine, parts, tokens(0, half));
    Sequence other = engine->create_sequence();
    Sequence twin = engine->create_sequence();
    const StepItem item{.sequence = &parts, .tokens = tokens(half, rest)};
    PartialStep step = engine->begin_step({&item, 1}).value();
    std::vector<float> logits(vocab_);
    int turns = 1;
    while (!engine->continue_step(
        step, [] { return false; }, logits)) {
      EXPECT_EQ(parts.length(), static_cast<int64_t>(half)) << "nothing before it is done";
      append(*engine, other, tokens(static_cast<size_t>(turns) % half, 1));
      engine->check();
      ++turns;
    }
    EXPECT_EQ(turns, model_->config().num_layers);
    EXPECT_EQ(logits, expected);
    EXPECT_EQ(append(*engine, parts, tokens(0, 1)), expected_next);
    for (int i = 1; i < turns; ++i) {
      append(*engine, twin, tokens(static_cast<size_t>(i) % half, 1));
    }
    EXPECT_EQ(append(*engine, other, tokens(0, 1)), append(*engine, twin, tokens(0, 1)));
    engine->check();
  }
}

TEST_P(PartialSteps, LeaveNoTraceWhenTheyAreDropped) {
  const auto engine = engine_or_die(*model_, {});
  const auto half = golden_.size() / 2;
  Sequence dropped = engine->create_sequence();
  append(*engine, dropped, tokens(0, half));
  {
    const StepItem item{.sequence = &dropped, .tokens = tokens(1, half - 1)};
    PartialStep step = engine->begin_step({&item, 1}).value();
    std::vector<float> logits(vocab_);
    engine->continue_step(
        step, [] { return false; }, logits);
  }
  engine->check();
  Sequence plain = engine->create_sequence();
  append(*engine, plain, tokens(0, half));
  EXPECT_EQ(append(*engine, dropped, tokens(0, 3)), append(*engine, plain, tokens(0, 3)));
  engine->check();
}

INSTANTIATE_TEST_SUITE_P(All, PartialSteps, testing::ValuesIn(tiny_models()),
                         [](const auto& test) { return test_name(test.param); });

TEST(PartialSteps, RefuseWhatAStepRefuses) {
  const auto model = load_or_die(QUIRE_TEST_DATA "/tiny/llama_tied");
  const auto engine = engine_or_die(*model, {});
  Sequence sequence = engine->create_sequence();
  const std::vector<TokenId> outside = {TokenId{model->config().vocab}};
  const StepItem item{.sequence = &sequence, .tokens = outside};
  EXPECT_EQ(engine->begin_step({&item, 1}).error().code, ErrorCode::kUsage);
  engine->check();
}

}  // namespace
}  // namespace quire::engine
