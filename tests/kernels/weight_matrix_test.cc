#include "kernels/weight_matrix.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "kernels/dequantize.h"
#include "kernels/file_weights.h"
#include "kernels/kernel_set.h"
#include "kernels/same_bits.h"

namespace quire::kernels {
namespace {

std::vector<float> dequantized(const WeightMatrix& weights, int64_t row) {
  std::vector<float> out(static_cast<size_t>(weights.cols()));
  kernels_for(Isa::kScalar)->dequantize_row(weights, row, out.data());
  return out;
}

std::vector<float> expected_row(const FileWeights& file, int64_t row) {
  std::vector<float> out;
  for (int64_t c = 0; c < file.cols(); ++c) out.push_back(file.value(row, c));
  return out;
}

std::vector<std::byte> read_bytes(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::vector<char> chars((std::istreambuf_iterator<char>(in)), {});
  std::vector<std::byte> bytes(chars.size());
  std::memcpy(bytes.data(), chars.data(), chars.size());
  return bytes;
}

class PackedWeights : public testing::TestWithParam<ElementType> {};

TEST_P(PackedWeights, DequantizeToWhatTheFormatDefines) {
  for (const int64_t rows : {1, 15, 16, 33}) {
    const FileWeights file(GetParam(), rows, 3 * block_columns(GetParam()), 7);
    const WeightMatrix packed = file.pack();
    for (int64_t r = 0; r < rows; ++r) {
      EXPECT_TRUE(same_bits(dequantized(packed, r), expected_row(file, r))) << "row " << r;
    }
  }
}

TEST_P(PackedWeights, DequantizeToTheReferenceOfTheFormatsAuthors) {
  const std::filesystem::path folder = std::filesystem::path(QUIRE_TEST_DATA) / "dequant";
  const std::string name(info(GetParam()).name);
  if (!std::filesystem::exists(folder / (name + ".blocks"))) {
    ASSERT_EQ(GetParam(), ElementType::F32) << "no reference for " << name;
    GTEST_SKIP() << "f32 needs no reference";
  }
  const std::vector<std::byte> truth_bytes = read_bytes(folder / (name + ".f32"));
  std::vector<float> truth(truth_bytes.size() / sizeof(float));
  std::memcpy(truth.data(), truth_bytes.data(), truth_bytes.size());
  const auto cols = static_cast<int64_t>(truth.size());
  const FileWeights file(GetParam(), 1, cols, read_bytes(folder / (name + ".blocks")));

  EXPECT_TRUE(same_bits(dequantized(file.pack(), 0), truth));
}

TEST_P(PackedWeights, AreTheSameByPanelAndByRow) {
  const int64_t block = block_columns(GetParam());
  const FileWeights file(GetParam(), 20, 4 * block, 8);
  const WeightMatrix packed = file.pack();
  std::vector<float> panel(static_cast<size_t>(2 * block * kPanelRows));
  dequantize_panel(packed, 1, block, 2 * block, panel.data());
  for (int64_t r = 16; r < 20; ++r) {
    for (int64_t c = 0; c < 2 * block; ++c) {
      EXPECT_EQ(panel[static_cast<size_t>(c * kPanelRows + r % kPanelRows)],
                file.value(r, block + c));
    }
  }
}

TEST_P(PackedWeights, AreTheSameBytesHoweverManyThreadsPackThem) {
  const int64_t rows = 16 * 5 + 3;
  const int64_t cols = 2 * block_columns(GetParam());
  std::vector<std::byte> stored(*stored_bytes(GetParam(), static_cast<uint64_t>(rows * cols)));
  for (size_t i = 0; i < stored.size(); ++i) stored[i] = static_cast<std::byte>(i * i % 251);
  WeightMatrix::Source source{
      .type = GetParam(), .rows = rows, .cols = cols, .stored = stored, .stored_rows = rows};
  source.source_row = [&](int64_t r) { return rows - 1 - r; };
  const WeightMatrix alone = WeightMatrix::pack(source).value();
  ThreadPool threads(3);
  source.threads = &threads;
  const WeightMatrix together = WeightMatrix::pack(source).value();
  EXPECT_EQ(std::memcmp(alone.panel(0), together.panel(0), static_cast<size_t>(alone.bytes())), 0);
}

TEST_P(PackedWeights, TakeTheRowsInTheOrderTheCallerNames) {
  const FileWeights file(GetParam(), 19, block_columns(GetParam()), 9);
  WeightMatrix::Source source = file.source();
  source.source_row = [](int64_t r) { return 18 - r; };
  const WeightMatrix packed = WeightMatrix::pack(source).value();
  for (int64_t r = 0; r < 19; ++r) {
    EXPECT_TRUE(same_bits(dequantized(packed, r), expected_row(file, 18 - r))) << "row " << r;
  }
}

TEST_P(PackedWeights, TakeNoMoreMemoryThanTheFileButForPaddingAndScaleBytes) {
  const FileWeights file(GetParam(), 64, 2 * block_columns(GetParam()), 10);
  const auto stored = static_cast<int64_t>(file.source().stored.size());
  const int64_t packed = file.pack().bytes();
  // Scales and minimums of 4 or 6 bits become bytes.
  const auto grows_a_block = [](ElementType type) -> int64_t {
    if (type == ElementType::Q2_K) return 16;
    if (type == ElementType::Q3_K || type == ElementType::Q4_K || type == ElementType::Q5_K)
      return 4;
    return 0;
  };
  EXPECT_EQ(packed, stored + grows_a_block(GetParam()) * 64 * 2);
}

INSTANTIATE_TEST_SUITE_P(EveryType, PackedWeights, testing::ValuesIn(kAllTypes),
                         [](const auto& param) { return test_name(param.param); });

TEST(PackedWeightsDeathTest, AbortWhenTheBytesAreNotThoseOfTheMatrix) {
  const FileWeights file(ElementType::Q4_1, 2, 32, 11);
  WeightMatrix::Source source = file.source();
  source.stored = source.stored.first(source.stored.size() - 1);
  EXPECT_DEATH((void)WeightMatrix::pack(source), "stored bytes");
}

}  // namespace
}  // namespace quire::kernels
