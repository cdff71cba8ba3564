#include "kernels/stored_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>

#include "kernels/dequantize.h"
#include "kernels/file_weights.h"
#include "kernels/same_bits.h"

namespace quire::kernels {
namespace {

using Bytes = std::vector<std::byte>;

Bytes read_bytes(const std::string& name) {
  std::ifstream in(std::filesystem::path(QUIRE_TEST_DATA) / "quantize" / name, std::ios::binary);
  const std::vector<char> chars((std::istreambuf_iterator<char>(in)), {});
  Bytes bytes(chars.size());
  std::memcpy(bytes.data(), chars.data(), chars.size());
  return bytes;
}

std::vector<float> input() {
  const Bytes bytes = read_bytes("input.f32");
  std::vector<float> floats(bytes.size() / sizeof(float));
  std::memcpy(floats.data(), bytes.data(), bytes.size());
  return floats;
}

Bytes encoded(ElementType type, const std::vector<float>& row) {
  Bytes out(*stored_bytes(type, row.size()));
  EXPECT_EQ(encode_row(type, row, out), EncodeProblem::kNone);
  return out;
}

std::vector<float> decoded(ElementType type, const Bytes& stored, size_t count) {
  std::vector<float> out(count);
  decode_row(type, stored, out);
  return out;
}

EncodeProblem problem_of(ElementType type, float one) {
  std::vector<float> row(64, 0.5f);
  row[40] = one;
  Bytes out(*stored_bytes(type, row.size()));
  return encode_row(type, row, out);
}

class StoredRows : public testing::TestWithParam<ElementType> {};

TEST_P(StoredRows, DecodeToTheBitsOfThePackedMatrix) {
  const int64_t cols = 3 * block_columns(GetParam());
  const FileWeights file(GetParam(), 5, cols, 21);
  const WeightMatrix packed = file.pack();
  const auto row_bytes = *stored_bytes(GetParam(), static_cast<uint64_t>(cols));
  for (int64_t r = 0; r < 5; ++r) {
    std::vector<float> truth(static_cast<size_t>(cols));
    dequantize_row(packed, r, truth.data());
    std::vector<float> got(truth.size());
    decode_row(GetParam(),
               file.source().stored.subspan(static_cast<size_t>(r) * row_bytes, row_bytes), got);
    EXPECT_TRUE(same_bits(got, truth)) << "row " << r;
  }
}

INSTANTIATE_TEST_SUITE_P(EveryType, StoredRows, testing::ValuesIn(kAllTypes),
                         [](const auto& param) { return test_name(param.param); });

constexpr ElementType kEncodable[] = {ElementType::F32,  ElementType::F16,  ElementType::BF16,
                                      ElementType::Q8_0, ElementType::Q4_0, ElementType::Q4_1};

class EncodedRows : public testing::TestWithParam<ElementType> {};

TEST_P(EncodedRows, AreTheBytesOfTheFormatsAuthors) {
  if (GetParam() == ElementType::F32) GTEST_SKIP() << "f32 needs no reference";
  const std::string name(info(GetParam()).name);
  EXPECT_EQ(encoded(GetParam(), input()), read_bytes(name + ".blocks"));
}

/// The most that encoding may move a number of a block with these extremes: half a step, and what
/// rounding the block's scale to 11 bits moves.
double tolerance(ElementType type, double least, double most) {
  const double largest = std::max(std::abs(least), std::abs(most));
  const double of_scale = largest * 0x1p-11 + 0x1p-24;
  switch (type) {
    case ElementType::F32:
      return 0;
    case ElementType::F16:
      return of_scale;
    case ElementType::BF16:
      return largest * 0x1p-8;
    case ElementType::Q8_0:
      return largest / 127 / 2 * 1.001 + 127 * 0x1p-24 + of_scale;
    case ElementType::Q4_0:  // the end opposite to the largest is cut off at 7 / 8
      return largest / 8 * 1.001 + 8 * 0x1p-24 + of_scale;
    default:
      return (most - least) / 15 / 2 * 1.001 + 15 * 0x1p-24 + 2 * of_scale;
  }
}

TEST_P(EncodedRows, StayWithinHalfAStepOfTheNumbers) {
  std::vector<float> row = input();
  std::mt19937 random(5);
  std::uniform_real_distribution<float> spread(-8, 8);
  for (int i = 0; i < 4096; ++i) {
    row.push_back(std::exp2(spread(random)) * spread(random));
  }
  const std::vector<float> got = decoded(GetParam(), encoded(GetParam(), row), row.size());
  for (size_t b = 0; b < row.size(); b += 32) {
    const auto [least, most] = std::minmax_element(row.begin() + static_cast<ptrdiff_t>(b),
                                                   row.begin() + static_cast<ptrdiff_t>(b + 32));
    for (size_t i = b; i < b + 32; ++i) {
      EXPECT_NEAR(got[i], row[i], tolerance(GetParam(), *least, *most)) << "number " << i;
    }
  }
}

TEST_P(EncodedRows, AreAFixedPointWhenTheNumbersAreOnTheGrid) {
  const std::vector<float> once = decoded(GetParam(), encoded(GetParam(), input()), input().size());
  const std::vector<float> twice = decoded(GetParam(), encoded(GetParam(), once), once.size());
  for (size_t i = 0; i < once.size(); ++i) {
    EXPECT_NEAR(twice[i], once[i], 2e-3 * std::abs(once[i]) + 1e-6) << "number " << i;
  }
}

TEST_P(EncodedRows, RefuseWhatIsNoNumber) {
  EXPECT_EQ(problem_of(GetParam(), std::nanf("")), EncodeProblem::kNotFinite);
  EXPECT_EQ(problem_of(GetParam(), INFINITY), EncodeProblem::kNotFinite);
  EXPECT_EQ(problem_of(GetParam(), -INFINITY), EncodeProblem::kNotFinite);
}

TEST_P(EncodedRows, RefuseWhatF16CannotHold) {
  const bool has_halves = GetParam() != ElementType::F32 && GetParam() != ElementType::BF16;
  const EncodeProblem expected = has_halves ? EncodeProblem::kTooLarge : EncodeProblem::kNone;
  for (const float x :
       {1e7f, -1e9f, std::numeric_limits<float>::max(), std::numeric_limits<float>::lowest()}) {
    EXPECT_EQ(problem_of(GetParam(), x), expected) << x;
  }
}

TEST_P(EncodedRows, TakeNumbersTooSmallForAnyScaleAsZero) {
  for (const float tiny : {std::numeric_limits<float>::denorm_min(), 1e-39f, -1e-38f}) {
    const std::vector<float> row(32, tiny);
    for (const float x : decoded(GetParam(), encoded(GetParam(), row), row.size())) {
      EXPECT_NEAR(x, 0.0f, 1e-7);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryType, EncodedRows, testing::ValuesIn(kEncodable),
                         [](const auto& param) { return test_name(param.param); });

TEST(CanEncode, KnowsOnlyTheTypesThatCanBeWritten) {
  for (const ElementType type : kAllTypes) {
    const bool listed = std::ranges::find(kEncodable, type) != std::end(kEncodable);
    EXPECT_EQ(can_encode(type), listed) << info(type).name;
  }
}

}  // namespace
}  // namespace quire::kernels
