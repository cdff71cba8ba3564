#include "kv/geometry.h"

#include <gtest/gtest.h>

#include <cctype>
#include <ostream>
#include <string>
#include <vector>

namespace quire::kv {
namespace {

using testing::TestWithParam;
using testing::ValuesIn;

std::vector<LayerKv> layers_of(int32_t count, LayerKv layer) {
  return std::vector<LayerKv>(static_cast<size_t>(count), layer);
}

/// Every `period`-th layer is global, the others have the window.
std::vector<LayerKv> hybrid_layers(int32_t count, int32_t period, LayerKv window_layer) {
  std::vector<LayerKv> layers = layers_of(count, window_layer);
  for (int32_t i = period - 1; i < count; i += period) {
    layers[static_cast<size_t>(i)].window_tokens = 0;
  }
  return layers;
}

KvGeometry geometry_of(const std::vector<LayerKv>& layers, KvCodecs codecs = {}) {
  return KvGeometry::create(layers, codecs).value();
}

struct Truth {
  std::string model;
  std::vector<LayerKv> layers;
  int64_t bytes_per_token;
  int64_t fixed_bytes;
};

void PrintTo(const Truth& truth, std::ostream* out) {
  *out << truth.model;
}

// Published sizes of f16 caches.
const std::vector<Truth> kTruths = {
    {"GPT-2", layers_of(12, {12, 64, 0}), 36'864, 0},
    {"SmolLM2-135M", layers_of(30, {3, 64, 0}), 23'040, 0},
    {"Llama-2-7B", layers_of(32, {32, 128, 0}), 524'288, 0},
    {"Llama-3.2-1B", layers_of(16, {8, 64, 0}), 32'768, 0},
    {"Llama-3.1-8B", layers_of(32, {8, 128, 0}), 131'072, 0},
    {"Llama-3.1-70B", layers_of(80, {8, 128, 0}), 327'680, 0},
    {"Qwen2.5-0.5B", layers_of(24, {2, 64, 0}), 12'288, 0},
    {"Qwen2.5-7B", layers_of(28, {4, 128, 0}), 57'344, 0},
    {"Qwen3-0.6B", layers_of(28, {8, 128, 0}), 114'688, 0},
    {"Phi-3-mini-128k", layers_of(32, {32, 96, 0}), 393'216, 0},
    {"Phi-3-mini-4k", layers_of(32, {32, 96, 2047}), 0, 804'913'152},
    {"Mistral-7B-v0.1", layers_of(32, {8, 128, 4096}), 0, 536'870'912},
    {"Falcon-7B", layers_of(32, {1, 64, 0}), 8'192, 0},
    {"Falcon-40B", layers_of(60, {8, 64, 0}), 122'880, 0},
    {"StarCoder", layers_of(40, {1, 128, 0}), 20'480, 0},
    {"Gemma-3-1B", hybrid_layers(26, 6, {1, 256, 512}), 4'096, 11'534'336},
    {"Gemma-3-4B", hybrid_layers(34, 6, {4, 256, 1024}), 20'480, 121'634'816},
    {"Gemma-3-27B", hybrid_layers(62, 6, {16, 128, 1024}), 81'920, 436'207'616},
    {"gpt-oss-20b", hybrid_layers(24, 2, {8, 64, 128}), 24'576, 3'145'728},
};

class PublishedSizes : public TestWithParam<Truth> {};

TEST_P(PublishedSizes, AreMetToTheByte) {
  const Truth& truth = GetParam();
  const KvGeometry geometry = geometry_of(truth.layers);

  EXPECT_EQ(geometry.bytes_per_token(), truth.bytes_per_token);
  EXPECT_EQ(geometry.fixed_bytes(), truth.fixed_bytes);
  EXPECT_EQ(geometry.used_bytes(100'000), truth.bytes_per_token * 100'000 + truth.fixed_bytes);
}

std::string test_name(const testing::TestParamInfo<Truth>& info) {
  std::string name = info.param.model;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}
INSTANTIATE_TEST_SUITE_P(Models, PublishedSizes, ValuesIn(kTruths), test_name);

TEST(KvGeometry, CountsGemma34BAt32kAsPublished) {
  const auto geometry = geometry_of(hybrid_layers(34, 6, {4, 256, 1024}));
  EXPECT_EQ(geometry.used_bytes(32'768), 792'723'456);
}

TEST(KvGeometry, CountsQwen7BAt32kAsPublished) {
  const auto geometry = geometry_of(layers_of(28, {4, 128, 0}));
  EXPECT_EQ(geometry.used_bytes(32'768), 1'879'048'192);
}

TEST(KvGeometry, CountsAWindowOnlyAsFarAsItIsFilled) {
  const auto geometry = geometry_of(hybrid_layers(26, 6, {1, 256, 512}));
  EXPECT_EQ(geometry.used_bytes(0), 0);
  EXPECT_EQ(geometry.used_bytes(100), 100 * (4'096 + 22 * 1'024));
  EXPECT_EQ(geometry.used_bytes(512), 512 * (4'096 + 22 * 1'024));
  EXPECT_EQ(geometry.used_bytes(513), 513 * 4'096 + 512 * 22 * 1'024);
}

TEST(KvGeometry, PutsEqualLayersIntoOneGroupAndFindsThemAgain) {
  const auto geometry = geometry_of(hybrid_layers(7, 3, {1, 64, 32}));

  ASSERT_EQ(geometry.groups().size(), 2u);
  EXPECT_EQ(geometry.groups()[0].layers, (std::vector<int32_t>{0, 1, 3, 4, 6}));
  EXPECT_EQ(geometry.groups()[1].layers, (std::vector<int32_t>{2, 5}));
  for (int32_t layer = 0; layer < geometry.num_layers(); ++layer) {
    const LayerPlace place = geometry.place(layer);
    const LayerGroup& group = geometry.groups()[static_cast<size_t>(place.group)];
    EXPECT_EQ(group.layers[static_cast<size_t>(place.index)], layer);
  }
}

TEST(KvGeometry, KeepsLayersOfDifferentShapesApart) {
  const std::vector<LayerKv> layers = {{2, 64, 0}, {4, 64, 0}, {2, 32, 0}};
  EXPECT_EQ(geometry_of(layers).groups().size(), 3u);
}

TEST(KvGeometry, AgreesWithTheKernelsOnThePageOfEveryPublishedModel) {
  for (const Truth& truth : kTruths) {
    const KvGeometry geometry = geometry_of(truth.layers);
    for (const LayerGroup& group : geometry.groups()) {
      EXPECT_EQ(group.page_bytes(), group.shape().page_bytes()) << truth.model;
    }
  }
}

TEST(KvGeometry, RoundsATinyPageUpToAPageOfTheSystem) {
  const auto geometry = geometry_of(layers_of(1, {1, 8, 0}));
  EXPECT_EQ(geometry.groups()[0].shape().page_bytes(), 2'048);
  EXPECT_EQ(geometry.groups()[0].page_bytes(), 4'096);
}

TEST(KvGeometry, PricesKeysAndValuesByTheirOwnCodec) {
  const auto layers = layers_of(30, {3, 64, 0});
  EXPECT_EQ(geometry_of(layers, {Codec::F32, Codec::F32}).bytes_per_token(), 46'080);
  EXPECT_EQ(geometry_of(layers, {Codec::F32, Codec::BF16}).bytes_per_token(), 34'560);
}

TEST(LayerGroup, HoldsNineFullPagesAtMostForAWindowOf512) {
  const auto geometry = geometry_of(layers_of(1, {1, 256, 512}));
  const LayerGroup& group = geometry.groups()[0];
  int64_t most = 0;
  for (int64_t tokens = 0; tokens < 4'096; ++tokens) {
    most = std::max(most, group.held_pages(tokens));
  }
  EXPECT_EQ(most, 9);
  EXPECT_EQ(group.peak_pages(100'000, 1), 9);
  EXPECT_EQ(group.held_pages(64), 1);
  EXPECT_EQ(group.held_pages(65), 2);
}

TEST(LayerGroup, NeverHoldsMoreThanItsPeakWhateverTheChunk) {
  for (const int32_t window : {1, 2, 32, 63, 64, 65, 100, 128}) {
    const auto geometry = geometry_of(layers_of(1, {1, 16, window}));
    const LayerGroup& group = geometry.groups()[0];
    for (const int64_t chunk : {1, 7, 64, 200}) {
      int64_t most = 0;
      for (int64_t tokens = 0; tokens + chunk < 1'000; ++tokens) {
        const int64_t last_page = (tokens + chunk - 1) / kPageTokens;
        most = std::max(most, last_page - group.first_kept(tokens) / kPageTokens + 1);
      }
      EXPECT_EQ(group.peak_pages(1'000, chunk), most) << window << " " << chunk;
    }
  }
}

TEST(KvGeometry, SpellsItsFormulaOut) {
  EXPECT_EQ(geometry_of(layers_of(30, {3, 64, 0})).formula(),
            "30 layers x 3 kv heads x 64 dims x (2 K + 2 V) bytes = 23,040 bytes a token");
  EXPECT_EQ(geometry_of(hybrid_layers(26, 6, {1, 256, 512})).formula(),
            "4 layers x 1 kv heads x 256 dims x (2 K + 2 V) bytes = 4,096 bytes a token; "
            "22 layers x 1 kv heads x 256 dims x (2 K + 2 V) bytes x 512 window tokens = "
            "11,534,336 bytes a sequence");
}

TEST(KvGeometry, NamesTheLayerWhoseNumbersAreImpossible) {
  for (const LayerKv bad : {LayerKv{0, 64, 0}, LayerKv{1, 0, 0}, LayerKv{1, 64, -1},
                            LayerKv{INT32_MAX, INT32_MAX, 0}, LayerKv{-3, -3, 0}}) {
    const std::vector<LayerKv> layers = {{1, 64, 0}, bad};
    const auto geometry = KvGeometry::create(layers, {});
    ASSERT_FALSE(geometry.ok());
    EXPECT_NE(geometry.error().message.find("layer 1"), std::string::npos);
  }
  EXPECT_FALSE(KvGeometry::create({}, {}).ok());
}

TEST(KvGeometry, DoesNotOverflowAtTheLargestSizesItAccepts) {
  const auto geometry = geometry_of(layers_of(1, {1 << 10, 1 << 16, 0}));
  EXPECT_EQ(geometry.bytes_per_token(), int64_t{256} << 20);
  EXPECT_GT(geometry.held_bytes(kMaxTokens), geometry.used_bytes(kMaxTokens));
}

TEST(Codec, ReadsBackEveryNameItPrints) {
  const auto all = {Codec::F32, Codec::F16, Codec::BF16, Codec::Q8,
                    Codec::Q6,  Codec::Q4,  Codec::Q3,   Codec::Q2};
  for (const Codec k : all) {
    for (const Codec v : all) {
      const KvCodecs codecs{k, v};
      EXPECT_EQ(codecs_from_name(name(codecs)), codecs);
    }
  }
  EXPECT_EQ(codecs_from_name("FP16"), KvCodecs{});
  EXPECT_EQ(codecs_from_name("q9"), std::nullopt);
  EXPECT_EQ(codecs_from_name("f16/"), std::nullopt);
  EXPECT_EQ(codecs_from_name(""), std::nullopt);
}

}  // namespace
}  // namespace quire::kv
