// Whatever stands in a configuration, the answer is a plan that makes sense or one sentence.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>

#include "plan/cache_plan.h"
#include "plan/families.h"
#include "plan/plan_testing.h"
#include "plan/what_if.h"

namespace quire::plan {
namespace {

using formats::Json;

// One of every table, and all that read keys of their own.
constexpr std::array kNames = {
    "gpt2",
    "llama-3.1-8b",
    "qwen2-57b-a14b",
    "falcon-40b",
    "starcoder",
    "gemma-3-4b",
    "gemma-3n-e4b",
    "gpt-oss-20b",
    "llama-4-scout",
    "deepseek-v3",
    "jamba-v0.1",
    "mamba-codestral-7b",
    "mamba-130m",
    "granite-4.0-h-tiny",
    "lfm2-1.2b",
    "falcon-h1-0.5b",
    "mpt-7b",
    "gpt-neo-1.3b",
    "recurrentgemma-2b",
    "kimi-linear-48b-a3b",
    "minimax-text-01",
    "qwen3-next-80b-a3b",
    "bloom-560m",
    "opt-1.3b",
};

const std::vector<Json>& odd_values() {
  static const std::vector<Json> values = {
      Json(-1),
      Json(0),
      Json(1),
      Json(2),
      Json(7),
      Json(int64_t{4096}),
      Json(int64_t{1} << 22),
      Json(int64_t{INT32_MAX}),
      Json(INT64_MAX),
      Json(INT64_MIN),
      Json(1e300),
      Json(0.5),
      Json(),
      Json(true),
      Json(false),
      Json("8"),
      Json(""),
      Json(Json::Array{}),
      Json(Json::Array{Json(1), Json(-1)}),
      Json(Json::Object{}),
  };
  return values;
}

/// A plan of the shape must be consistent and finite; nothing negative, nothing that wrapped.
void expect_sense(const ModelShape& shape, const std::string& what) {
  ASSERT_FALSE(shape.layers.empty()) << what;
  if (!check_cache_size(shape).ok()) return;
  PlanRequest request =
      request_of(shape.context > 0 ? std::min<int64_t>(shape.context, 1 << 20) : 4096);
  request.sequences = 1000;
  ASSERT_TRUE(check_request(request).ok()) << what;
  const MemoryPlan plan = plan_memory(shape, request);
  for (const int64_t bytes : {plan.weights, plan.kv_used, plan.page_rounding, plan.prefill,
                              plan.activation, plan.logits, plan.overhead, plan.total}) {
    EXPECT_GE(bytes, 0) << what;
    EXPECT_LE(bytes, int64_t{1} << 62) << what;
  }
  EXPECT_GE(plan.total, plan.kv_used) << what;
  request.sequences = 1;
  EXPECT_LE(plan_memory(shape, request).total, plan.total) << what;
  EXPECT_FALSE(CachePlan(shape, {}, {}).formula().empty());
  EXPECT_GE(shape.parameters(), 0) << what;
}

void expect_plan_or_sentence(const Json& config, const std::string& what) {
  const auto shape = shape_of_config(config, "config.json");
  if (shape.ok()) {
    expect_sense(*shape, what);
  } else {
    EXPECT_FALSE(shape.error().message.empty()) << what;
    EXPECT_EQ(shape.error().message.find('\n'), std::string::npos) << what;
  }
}

/// Every field of the object, and of objects inside, set to every odd value and removed.
void vary_fields(const Json& whole, const std::string& path,
                 const std::function<Json(Json)>& inside, const Json& object) {
  for (const auto& [key, value] : *object.as_object()) {
    const std::string what = path + "." + key;
    for (const Json& odd : odd_values()) {
      Json changed = object;
      changed.set(key, odd);
      expect_plan_or_sentence(inside(changed), what + " = " + odd.dump());
    }
    Json::Object rest;
    for (const Json::Member& member : *object.as_object()) {
      if (member.first != key) rest.push_back(member);
    }
    expect_plan_or_sentence(inside(Json(std::move(rest))), what + " missing");
    if (value.is_object()) {
      vary_fields(
          whole, what,
          [&, name = key](Json inner) {
            Json changed = object;
            changed.set(name, std::move(inner));
            return inside(changed);
          },
          value);
    }
  }
}

class HostileConfig : public ::testing::TestWithParam<const char*> {};

TEST_P(HostileConfig, GivesAPlanOrASentenceWithAnyFieldOdd) {
  const Json config = published_config(GetParam());
  vary_fields(
      config, GetParam(), [](Json json) { return json; }, config);
}

TEST_P(HostileConfig, GivesAPlanOrASentenceWithSeveralFieldsOdd) {
  const Json config = published_config(GetParam());
  std::mt19937 random(7);
  for (int round = 0; round < 150; ++round) {
    Json changed = config;
    for (auto& [key, value] : *changed.as_object()) {
      if (key == "model_type") continue;
      if (value.is_object() && random() % 2 == 0) {
        for (auto& [inner, number] : *value.as_object()) {
          if (inner != "model_type" && random() % 4 == 0) {
            number = odd_values()[random() % odd_values().size()];
          }
        }
      } else if (random() % 4 == 0) {
        value = odd_values()[random() % odd_values().size()];
      }
    }
    expect_plan_or_sentence(changed, changed.dump());
  }
}

INSTANTIATE_TEST_SUITE_P(All, HostileConfig, ::testing::ValuesIn(kNames), [](const auto& test) {
  std::string name(test.param);
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
});

}  // namespace
}  // namespace quire::plan
