#include "engine/npy.h"

#include <gmock/gmock.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace quire::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class NpyFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "quire-npy-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Result<NpyMatrix> open(const std::string& content) {
    const std::string path = folder_ + "/m.npy";
    std::ofstream(path, std::ios::binary) << content;
    return NpyMatrix::open(real_file_system(), path);
  }

  std::string folder_;
};

std::string bytes_of(std::span<const float> numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes()};
}

TEST_F(NpyFile, ReadsBackWhatWasWritten) {
  const std::array<float, 6> numbers = {1, 2, 3, 4, 5, 6};
  const std::string header = npy_header(2, 3);
  EXPECT_EQ(header.size() % 64, 0u);
  const auto matrix = open(header + bytes_of(numbers));
  ASSERT_TRUE(matrix.ok()) << matrix.error().message;
  EXPECT_EQ(matrix->rows(), 2);
  EXPECT_EQ(matrix->cols(), 3);
  std::array<float, 3> row{};
  matrix->read_row(1, row);
  EXPECT_THAT(row, ElementsAre(4, 5, 6));
}

TEST_F(NpyFile, RefusesEveryLie) {
  const std::array<float, 6> numbers{};
  const std::string good = npy_header(2, 3) + bytes_of(numbers);
  const auto with = [&good](std::string_view from, std::string_view to) {
    std::string bad = good;
    return bad.replace(bad.find(from), from.size(), to);
  };
  std::vector<std::string> files = {
      "",
      good.substr(0, 5),
      good.substr(0, 40),
      good.substr(0, good.size() - 1),
      good + "x",
      with("<f4", "<f8"),
      with("False", "True "),
      with("(2, 3)", "(3, 3)"),
      with("(2, 3)", "(-2,3)"),
      with("(2, 3)", "(6,)  "),
      with("(2, 3), }   ", "(9223372036854775807, 9223372036854775807), }"),
      with("NUMPY", "NUMPX"),
  };
  files.push_back(good);
  files.back()[8] = '\xff';  // a header that goes on beyond the file
  files.back()[9] = '\xff';
  for (const std::string& file : files) {
    const auto matrix = open(file);
    ASSERT_FALSE(matrix.ok()) << file;
    EXPECT_EQ(matrix.error().code, ErrorCode::kBadFile);
    EXPECT_THAT(matrix.error().message, HasSubstr("m.npy"));
  }
}

}  // namespace
}  // namespace quire::engine
