// What the planner says before loading is what the engine then uses.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "base/machine.h"
#include "engine/describe.h"
#include "engine/kv_plan.h"
#include "engine/tiny_models.h"
#include "plan/cache_plan.h"
#include "plan/kv_error.h"
#include "plan/memory_plan.h"
#include "plan/source.h"
#include "scenarios/real_model.h"

namespace quire::engine {
namespace {

/// Every folder and GGUF file in tests/data/tiny.
std::vector<std::string> tiny_paths() {
  namespace fs = std::filesystem;
  std::vector<std::string> paths;
  for (const auto& entry : fs::directory_iterator(QUIRE_TEST_DATA "/tiny")) {
    if (fs::exists(entry.path() / "config.json")) paths.push_back(entry.path().string());
    for (const auto& file : fs::directory_iterator(entry.path())) {
      const std::string name = file.path().string();
      const bool later_part =
          name.find("-00001-of-") == std::string::npos && name.find("-of-") != std::string::npos;
      if (name.ends_with(".gguf") && !later_part) paths.push_back(name);
    }
  }
  return paths;
}

void expect_same_cache(const plan::ModelShape& shape, const model::ModelConfig& config) {
  EXPECT_EQ(shape.context, config.context);
  EXPECT_EQ(shape.vocab, config.vocab);
  for (const kv::KvCodecs codecs : plan::usual_codecs()) {
    const plan::CachePlan planned(shape, codecs, {});
    const kv::KvGeometry used = kv_geometry(config, codecs).value();
    EXPECT_EQ(planned.bytes_per_token(), used.bytes_per_token()) << kv::name(codecs);
    EXPECT_EQ(planned.fixed_bytes(), used.fixed_bytes()) << kv::name(codecs);
    EXPECT_EQ(planned.formula(), used.formula());
    for (const int64_t tokens : {1, 64, 100, 1000}) {
      EXPECT_EQ(planned.used_bytes(tokens), used.used_bytes(tokens)) << tokens;
    }
  }
}

TEST(PlanAgreement, OnTheCacheOfEveryTinyModel) {
  int checked = 0;
  for (const std::string& path : tiny_paths()) {
    SCOPED_TRACE(path);
    const auto described = describe_model(real_file_system(), path);
    ASSERT_TRUE(described.ok());
    if (!described->config) continue;
    const auto shape = plan::shape_of_path(real_file_system(), path);
    ASSERT_TRUE(shape.ok()) << shape.error().message;
    expect_same_cache(*shape, *described->config);
    EXPECT_EQ(shape->parameters(), described->parameters);
    ++checked;
  }
  EXPECT_GE(checked, 22);
}

class RealPlan : public testing::TestWithParam<const char*> {};

// The windows of Gemma 3 are full, and lie so that they touch nine pages.
constexpr int64_t kTokens = 600;

plan::PlanRequest real_request() {
  return {.context = kTokens, .threads = 2, .memory = int64_t{1} << 40};
}

TEST_P(RealPlan, IsWhatARunHolds) {
  const auto path = real_model(GetParam());
  QUIRE_SKIP_WITHOUT(GetParam(), path);
  const plan::ModelShape shape = plan::shape_of_path(real_file_system(), *path).value();
  const plan::MemoryPlan planned = plan::plan_memory(shape, real_request());

  const auto model = load_or_die(*path);
  const auto engine = engine_or_die(*model, {.threads = 2});
  expect_same_cache(shape, model->config());
  Sequence sequence = engine->create_sequence();
  std::vector<TokenId> tokens;
  for (int32_t i = 0; i < kTokens; ++i) tokens.push_back(TokenId{100 + i * 13 % 20000});
  ASSERT_TRUE(engine->append(sequence, tokens).ok());

  const MemoryReport report = engine->memory();
  EXPECT_EQ(planned.weights, report.weights);
  EXPECT_EQ(planned.kv_used, engine->kv_stats().bytes_used);
  EXPECT_EQ(planned.kv_used + planned.page_rounding, report.kv);
  EXPECT_EQ(planned.kv_used + planned.page_rounding + planned.prefill,
            engine->geometry().peak_bytes(kTokens, 512));
  const auto scratch = static_cast<double>(report.activation);
  EXPECT_NEAR(static_cast<double>(planned.activation + planned.logits), scratch, 0.02 * scratch);
  const auto resident = static_cast<double>(resident_bytes(real_file_system()));
  EXPECT_LE(std::abs(resident - static_cast<double>(planned.total)), 0.05 * resident + 30e6)
      << "resident " << resident << ", planned " << planned.total;
}

TEST_P(RealPlan, NeedsTheHeaderOnly) {
  const auto path = real_model(GetParam());
  QUIRE_SKIP_WITHOUT(GetParam(), path);
  const plan::ModelShape whole = plan::shape_of_path(real_file_system(), *path).value();
  // The vocabulary fills most of a header; no weight lies in the first sixteenth of the file but
  // perhaps that of the embedding.
  const auto mapped = real_file_system().map(*path).value();
  const auto bytes = mapped->bytes();
  const size_t header = 24u << 20;
  const std::string cut =
      (std::filesystem::path(testing::TempDir()) / (std::string("header_") + GetParam())).string();
  ASSERT_TRUE(real_file_system()
                  .write_atomically(cut, {reinterpret_cast<const char*>(bytes.data()),
                                          std::min(header, bytes.size())})
                  .ok());
  const auto shape = plan::shape_of_path(real_file_system(), cut);
  std::filesystem::remove(cut);
  ASSERT_TRUE(shape.ok()) << shape.error().message;
  EXPECT_EQ(plan::plan_memory(*shape, real_request()).total,
            plan::plan_memory(whole, real_request()).total);
}

INSTANTIATE_TEST_SUITE_P(All, RealPlan, testing::Values("smollm2", "gemma3"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace quire::engine
