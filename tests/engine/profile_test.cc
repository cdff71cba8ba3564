// The profile of a forward pass: what it counts, and that it changes nothing.
#include "model/profile.h"

#include <gtest/gtest.h>

#include "engine/tiny_models.h"
#include "kernels/same_bits.h"

namespace quire::engine {
namespace {

using model::Step;

const std::string kModel = QUIRE_TEST_DATA "/tiny/llama_tied";

std::vector<TokenId> tokens(int32_t count) {
  std::vector<TokenId> out;
  for (int32_t i = 0; i < count; ++i) out.push_back(TokenId{i % 50 + 3});
  return out;
}

const model::StepCost& cost_of(const std::vector<model::Profile::Row>& rows, Step step) {
  for (const model::Profile::Row& row : rows) {
    if (row.step == step) return row.cost;
  }
  ADD_FAILURE() << name(step) << " is missing";
  static const model::StepCost none;
  return none;
}

TEST(Profile, ChangesNoBit) {
  const auto model = load_or_die(kModel);
  model::Profile profile;
  const auto plain = engine_or_die(*model, {});
  const auto profiled = engine_or_die(*model, {.profile = &profile});
  Sequence a = plain->create_sequence();
  Sequence b = profiled->create_sequence();
  EXPECT_TRUE(kernels::same_bits(plain->append(a, tokens(70)).value(),
                                 profiled->append(b, tokens(70)).value()));
  EXPECT_GT(profile.seconds(), 0.0);
}

TEST(Profile, CountsTheWeightsThatAreReadAndTheProductsWithThem) {
  const auto model = load_or_die(kModel);
  const model::ModelConfig& c = model->config();
  model::Profile profile;
  const auto engine = engine_or_die(*model, {.profile = &profile});
  Sequence sequence = engine->create_sequence();
  constexpr int32_t kTokens = 10;
  ASSERT_TRUE(engine->append(sequence, tokens(kTokens)).ok());
  const auto rows = profile.rows();
  const model::StepCost& down = cost_of(rows, Step::kDown);
  EXPECT_EQ(down.calls, c.num_layers);
  // The last layer is finished for the row whose logits are wanted.
  const int32_t whole_layers = c.num_layers - 1;
  EXPECT_EQ(down.operations, 2.0 * (kTokens * whole_layers + 1) * c.hidden * c.ffn);
  double down_bytes = 0.0;
  for (const model::LayerWeights& layer : model->weights().layers) {
    down_bytes += static_cast<double>(layer.ffn.down.matrix.bytes());
  }
  EXPECT_EQ(down.bytes, down_bytes);
  // Query i sees i + 1 keys: a product with each, and one with each value.
  const model::StepCost& attend = cost_of(rows, Step::kAttend);
  EXPECT_EQ(attend.operations, 4.0 * static_cast<double>(c.q_width()) *
                                   (whole_layers * (kTokens * (kTokens + 1) / 2) + kTokens));
  const double row_bytes = 2.0 * static_cast<double>(c.kv_width()) * 2;
  EXPECT_EQ(attend.bytes, kTokens * row_bytes * c.num_layers);
  EXPECT_EQ(cost_of(rows, Step::kHead).operations, 2.0 * c.vocab * c.hidden);
}

TEST(Profile, TellsLayerGroupsApart) {
  const auto model = load_or_die(QUIRE_TEST_DATA "/tiny/gemma3");
  model::Profile profile;
  const auto engine = engine_or_die(*model, {.profile = &profile});
  Sequence sequence = engine->create_sequence();
  ASSERT_TRUE(engine->append(sequence, tokens(20)).ok());
  int64_t calls = 0;
  int32_t groups = 0;
  for (const model::Profile::Row& row : profile.rows()) {
    if (row.step != Step::kAttend) continue;
    ++groups;
    calls += row.cost.calls;
  }
  EXPECT_EQ(groups, 2);
  EXPECT_EQ(calls, model->config().num_layers);
}

}  // namespace
}  // namespace quire::engine
