// What Hugging Face transformers computes in fp32 is the truth for every model.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/file_system.h"
#include "engine/tiny_models.h"
#include "model/architecture.h"

namespace quire::engine {
namespace {

// f32 engines agree to 3e-5 of the logits' rms; the smallest mistake we planted moves 4e-4.
constexpr double kTolerance = 3e-4;

class TinyOracle : public testing::TestWithParam<TinyModel> {};

TEST_P(TinyOracle, AgreesWithTransformersInF32) {
  const auto model = load_or_die(GetParam().path);
  const Golden golden = read_golden(GetParam());
  const auto engine = engine_or_die(*model, {.kv = {kv::Codec::F32, kv::Codec::F32},
                                             .activations = kernels::ActivationPolicy::kF32});
  Sequence sequence = engine->create_sequence();
  const std::vector<float> logits = all_logits(*engine, sequence, golden.tokens, 64);

  const auto vocab = static_cast<size_t>(model->config().vocab);
  ASSERT_EQ(golden.logits.size(), golden.positions.size() * vocab);
  EXPECT_LE(worst_share_of_rms(golden, logits), kTolerance);
}

INSTANTIATE_TEST_SUITE_P(All, TinyOracle, testing::ValuesIn(tiny_models()),
                         [](const auto& test) { return test_name(test.param); });

TEST(TinyModels, CoverEveryArchitectureAsFolderAndAsGguf) {
  std::set<std::string> folders;
  std::set<std::string> ggufs;
  for (const TinyModel& tiny : tiny_models()) {
    const auto files = formats::ModelFiles::open(real_file_system(), tiny.path);
    ASSERT_TRUE(files.ok()) << tiny.name;
    const auto described = model::describe(*files);
    ASSERT_TRUE(described.ok()) << tiny.name << ": " << described.error().message;
    (files->gguf() != nullptr ? ggufs : folders).insert(described->config.architecture);
  }
  for (const model::Architecture* known : model::architectures()) {
    EXPECT_TRUE(folders.contains(std::string(known->name))) << known->name;
    EXPECT_TRUE(ggufs.contains(std::string(known->name))) << known->name;
  }
}

}  // namespace
}  // namespace quire::engine
