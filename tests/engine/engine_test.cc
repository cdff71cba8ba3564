#include "engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/tiny_models.h"

namespace quire::engine {
namespace {

using testing::HasSubstr;

std::vector<TokenId> some_tokens(size_t count) {
  std::vector<TokenId> tokens(count);
  for (size_t i = 0; i < count; ++i) tokens[i] = TokenId{static_cast<int32_t>(3 + i * 7 % 200)};
  return tokens;
}

TEST(Engine, WindowLayersFreePagesWhileAPromptIsRead) {
  const auto model = load_or_die(QUIRE_TEST_DATA "/tiny/gemma3");
  const auto engine = engine_or_die(*model, {.prefill_chunk = 64});
  Sequence sequence = engine->create_sequence();
  const auto tokens = some_tokens(400);
  const auto progress = [&](int64_t, int64_t) {
    engine->check();
    return true;
  };
  ASSERT_TRUE(engine->append(sequence, tokens, progress).ok());
  const kv::KvStats stats = engine->kv_stats();
  const auto& groups = engine->geometry().groups();
  ASSERT_EQ(groups.size(), 2u);
  for (size_t g = 0; g < groups.size(); ++g) {
    EXPECT_EQ(stats.groups[g].pages_held, groups[g].is_window() ? 2 : 7) << g;
  }
  EXPECT_EQ(stats.bytes_used, engine->geometry().used_bytes(400));
}

TEST(Engine, ReturnsEveryPageWhenASequenceGoes) {
  const auto model = load_or_die(QUIRE_TEST_DATA "/tiny/llama_tied");
  const auto engine = engine_or_die(*model, {});
  {
    Sequence sequence = engine->create_sequence();
    ASSERT_TRUE(engine->append(sequence, some_tokens(100)).ok());
    const Sequence twin = engine->fork(sequence);
    EXPECT_GT(engine->kv_stats().bytes_held, 0);
  }
  EXPECT_EQ(engine->kv_stats().bytes_held, 0);
  engine->check();
}

TEST(Engine, RefusesTokensBeyondTheWindowAndChangesNothing) {
  const auto model = load_or_die(QUIRE_TEST_DATA "/tiny/llama_tied");
  const auto engine = engine_or_die(*model, {.context_tokens = 50});
  Sequence sequence = engine->create_sequence();
  ASSERT_TRUE(engine->append(sequence, some_tokens(40)).ok());
  const auto refused = engine->append(sequence, some_tokens(11));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kDoesNotFit);
  EXPECT_EQ(sequence.length(), 40);
  EXPECT_TRUE(engine->append(sequence, some_tokens(10)).ok());
}

TEST(Engine, RefusesTokensOutsideTheVocabulary) {
  const auto model = load_or_die(QUIRE_TEST_DATA "/tiny/llama_tied");
  const auto engine = engine_or_die(*model, {});
  Sequence sequence = engine->create_sequence();
  for (const int32_t bad : {-1, model->config().vocab}) {
    const TokenId token{bad};
    EXPECT_EQ(engine->append(sequence, {&token, 1}).error().code, ErrorCode::kUsage);
  }
  EXPECT_EQ(sequence.length(), 0);
}

TEST(Engine, AFullPoolRefusesOneSequenceAndKeepsTheOthers) {
  const auto model = load_or_die(QUIRE_TEST_DATA "/tiny/llama_tied");
  const auto probe = engine_or_die(*model, {});
  const int64_t budget = probe->geometry().held_bytes(192);
  const auto engine = engine_or_die(*model, {.context_tokens = 192, .memory_bytes = budget});
  Sequence first = engine->create_sequence();
  Sequence second = engine->create_sequence();
  ASSERT_TRUE(engine->append(first, some_tokens(128)).ok());
  const auto refused = engine->append(second, some_tokens(65));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kDoesNotFit);
  engine->check();
  EXPECT_TRUE(engine->append(first, some_tokens(64)).ok());
  engine->check();
}

TEST(Engine, MemoryBindsTheWindowWhenItIsShort) {
  const auto model = load_or_die(QUIRE_TEST_DATA "/tiny/llama_tied");
  const auto probe = engine_or_die(*model, {});
  const int64_t budget = probe->geometry().held_bytes(128);
  const auto engine = engine_or_die(*model, {.memory_bytes = budget});
  EXPECT_EQ(engine->window().tokens, 128);
  EXPECT_EQ(engine->window().limit, WindowLimit::kMemory);
  const auto refused = Engine::create(*model, {.context_tokens = 200, .memory_bytes = budget});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("128"));
}

}  // namespace
}  // namespace quire::engine
