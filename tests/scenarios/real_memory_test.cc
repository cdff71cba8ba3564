// What a run says it holds is what the system says it holds.
#include <gtest/gtest.h>

#include <cmath>

#include "base/machine.h"
#include "engine/tiny_models.h"
#include "scenarios/real_model.h"

namespace quire::engine {
namespace {

class RealMemory : public testing::TestWithParam<const char*> {};

TEST_P(RealMemory, ReportAndResidentSetAgree) {
  const auto path = real_model(GetParam());
  QUIRE_SKIP_WITHOUT(GetParam(), path);
  const auto model = load_or_die(*path);
  const auto engine = engine_or_die(*model, {.threads = 2});
  Sequence sequence = engine->create_sequence();
  std::vector<TokenId> tokens;
  for (int32_t i = 0; i < 1500; ++i) tokens.push_back(TokenId{100 + i * 13 % 20000});
  ASSERT_TRUE(engine->append(sequence, tokens).ok());

  const MemoryReport report = engine->memory();
  EXPECT_EQ(report.kv, engine->geometry().held_bytes(1500));
  const auto said = static_cast<double>(report.weights + report.kv + report.activation);
  const auto resident = static_cast<double>(resident_bytes(real_file_system()));
  EXPECT_LE(std::abs(resident - said), 0.05 * resident + 30e6)
      << "resident " << resident << ", said " << said;
}

INSTANTIATE_TEST_SUITE_P(All, RealMemory, testing::Values("smollm2", "gemma3"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace quire::engine
