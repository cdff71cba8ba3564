#include "formats/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "formats/heap_meter.h"
#include "formats/memory_file_system.h"
#include "formats/safetensors_builder.h"
#include "formats/walk_everything.h"

namespace quire::formats {
namespace {

using ::testing::HasSubstr;

const std::vector<std::string> kBoundaries = {"0",
                                              "1",
                                              "2147483647",
                                              "2147483648",
                                              "2147483649",
                                              "4294967295",
                                              "4294967296",
                                              "4294967297",
                                              "9223372036854775807",
                                              "9223372036854775808",
                                              "-1",
                                              "1e1",
                                              "1.0",
                                              "18446744073709551615",
                                              "18446744073709551616",
                                              "00",
                                              "0x10",
                                              "99999999999999999999",
                                              "null",
                                              "\"4\""};

/// Opens the bytes and reads whatever opened. Returns the error, or "" if the file is valid.
std::string open_and_walk(const std::string& bytes) {
  MemoryFileSystem files;
  files.put("m.safetensors", bytes);
  // The fake's mapping is a copy of the file on the heap, beside what the parser may take.
  const int64_t allowed = static_cast<int64_t>(5 * bytes.size()) + (16 << 20);
  HeapMeter meter;
  const auto table = open_safetensors(files, {"m.safetensors"});
  EXPECT_LE(meter.peak_bytes(), allowed);
  if (table.ok()) {
    walk_tensors(*table);
    return "";
  }
  EXPECT_LT(table.error().message.size(), 600u);
  EXPECT_EQ(table.error().message.find('\n'), std::string::npos);
  return table.error().message;
}

std::string error_of(const std::string& header, size_t data_bytes) {
  return open_and_walk(safetensors_file(header, std::string(data_bytes, 'd')));
}

TEST(Safetensors, ReadsTensorsOfSeveralTypes) {
  MemoryFileSystem files;
  files.put("m.safetensors", sample_safetensors());
  const TensorTable table = open_safetensors(files, {"m.safetensors"}).value();

  ASSERT_EQ(table.tensors().size(), 4u);
  const TensorInfo* q = table.find("model.q.weight");
  ASSERT_NE(q, nullptr);
  EXPECT_EQ(q->shape, (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(readable_type(*q).value(), ElementType::BF16);
  EXPECT_EQ(q->bytes.size(), 24u);
  EXPECT_TRUE(std::ranges::all_of(q->bytes, [](std::byte b) { return b == std::byte{'q'}; }));
  EXPECT_THAT(readable_type(*table.find("position_ids")).error().message,
              HasSubstr("tensor position_ids is stored as i64"));
  EXPECT_EQ(num_elements(*table.find("nothing")), 0);
}

TEST(Safetensors, ReadsAFileWithoutTensors) {
  EXPECT_EQ(error_of("{}", 0), "");
  EXPECT_EQ(error_of("{\"__metadata__\":{}}  \n", 0), "");
}

TEST(Safetensors, ReadsAScalarAndEscapedNames) {
  MemoryFileSystem files;
  files.put(
      "m.safetensors",
      safetensors_file("{" + safetensors_entry("a\\u00e9\\ud83d\\ude00\\/", "F16", "", "0,2") + "}",
                       "xy"));
  const TensorTable table = open_safetensors(files, {"m.safetensors"}).value();
  const TensorInfo* scalar = table.find("a\xC3\xA9\xF0\x9F\x98\x80/");
  ASSERT_NE(scalar, nullptr);
  EXPECT_EQ(num_elements(*scalar), 1);
}

TEST(Safetensors, RefusesDuplicates) {
  const std::string a = safetensors_entry("a", "F16", "1", "0,2");
  const std::string b = safetensors_entry("a", "F16", "1", "2,4");
  const std::string escaped = safetensors_entry("\\u0061", "F16", "1", "2,4");
  EXPECT_THAT(error_of("{" + a + "," + b + "}", 4), HasSubstr("tensor a stands twice"));
  EXPECT_THAT(error_of("{" + a + "," + escaped + "}", 4), HasSubstr("tensor a stands twice"));
  EXPECT_THAT(error_of("{\"__metadata__\":{},\"__metadata__\":{}}", 0), HasSubstr("stands twice"));
  EXPECT_THAT(error_of("{\"a\":{\"dtype\":\"F16\",\"dtype\":\"F16\",\"shape\":[1],"
                       "\"data_offsets\":[0,2]}}",
                       2),
              HasSubstr("unknown or repeated field dtype"));

  MemoryFileSystem files;
  files.put("1.safetensors", safetensors_of("w"));
  files.put("2.safetensors", safetensors_of("w"));
  EXPECT_THAT(open_safetensors(files, {"1.safetensors", "2.safetensors"}).error().message,
              HasSubstr("tensor w stands in both 1.safetensors and 2.safetensors"));
}

TEST(Safetensors, RefusesHolesOverlapsAndLeftovers) {
  const auto two = [](std::string_view first, std::string_view second) {
    return "{" + safetensors_entry("a", "U8", "4", first) + "," +
           safetensors_entry("b", "U8", "4", second) + "}";
  };
  EXPECT_EQ(error_of(two("0,4", "4,8"), 8), "");
  EXPECT_EQ(error_of(two("4,8", "0,4"), 8), "");
  EXPECT_THAT(error_of(two("0,4", "5,9"), 9), HasSubstr("overlap or leave a hole"));
  EXPECT_THAT(error_of(two("0,4", "3,7"), 7), HasSubstr("overlap or leave a hole"));
  EXPECT_THAT(error_of(two("0,4", "0,4"), 4), HasSubstr("overlap or leave a hole"));
  EXPECT_THAT(error_of(two("1,5", "5,9"), 9), HasSubstr("overlap or leave a hole"));
  EXPECT_THAT(error_of(two("0,4", "4,8"), 9), HasSubstr("1 bytes after the last tensor"));
  EXPECT_THAT(error_of(two("0,4", "4,8"), 7), HasSubstr("damaged or incomplete"));
}

TEST(Safetensors, RefusesShapesThatDisagreeWithTheBytes) {
  EXPECT_THAT(error_of("{" + safetensors_entry("a", "F32", "3", "0,8") + "}", 8),
              HasSubstr("tensor a has 8 bytes, but its shape and dtype F32"));
  EXPECT_THAT(error_of("{" + safetensors_entry("a", "F4", "3", "0,1") + "}", 1),
              HasSubstr("ask for another number"));
  EXPECT_EQ(error_of("{" + safetensors_entry("a", "F4", "4", "0,2") + "}", 2), "");
}

TEST(Safetensors, ListsTypesThatNobodyKnowsYet) {
  MemoryFileSystem files;
  files.put("m",
            safetensors_file("{" + safetensors_entry("a", "F3_NEW\\n", "7", "0,5") + "}", "12345"));
  const TensorTable table = open_safetensors(files, {"m"}).value();
  EXPECT_THAT(readable_type(*table.find("a")).error().message, HasSubstr("stored as f3_new?,"));
}

TEST(Safetensors, RefusesHeadersThatAreNoHeaders) {
  const std::string entry = safetensors_entry("a", "U8", "1", "0,1");
  const std::vector<std::string> headers = {"",
                                            " {}",
                                            "[]",
                                            "{",
                                            "{\"a\"}",
                                            "{" + entry,
                                            "{" + entry + ",}",
                                            "{" + entry + "}{",
                                            "{" + entry + "}x",
                                            "{,}",
                                            "{\"a\":1}",
                                            "{\"a\":{}}",
                                            "{\"a\":{\"dtype\":1}}",
                                            "{\"a\":{\"shape\":1}}",
                                            "{\"a\":{\"data_offsets\":[1]}}",
                                            "{\"a\":{\"data_offsets\":[0,1,2]}}",
                                            "{\"a\xFF\":{}}",
                                            "{\"a\n\":{}}",
                                            "{\"\\ud800\":{}}",
                                            "{\"\\x\":{}}",
                                            "{\"__metadata__\":{\"a\":1}}",
                                            "{\"__metadata__\":[]}"};
  for (const std::string& header : headers) {
    EXPECT_NE(error_of(header, 1), "") << header;
  }
}

TEST(HostileSafetensors, SurvivesEveryBoundaryInShapeAndOffsets) {
  for (const std::string& a : kBoundaries) {
    for (const std::string& b : kBoundaries) {
      const auto valid_shape = [](const std::string& s) { return s == "0" || s == "1"; };
      const std::string shape = "{" + safetensors_entry("a", "U8", a + "," + b, "0,1") + "}";
      EXPECT_EQ(error_of(shape, 1).empty(), a == "1" && b == "1") << a << " x " << b;
      const std::string none = "{" + safetensors_entry("a", "U8", a + "," + b, "0,0") + "}";
      if (valid_shape(a) && valid_shape(b)) {
        EXPECT_EQ(error_of(none, 0).empty(), a == "0" || b == "0") << a << " x " << b;
      } else {
        error_of(none, 0);
      }
      const std::string offsets = "{" + safetensors_entry("a", "U8", "1", a + "," + b) + "}";
      EXPECT_EQ(error_of(offsets, 1).empty(), a == "0" && b == "1") << a << " to " << b;
    }
  }
}

TEST(HostileSafetensors, SurvivesEveryBoundaryAsLengthOfTheHeader) {
  const std::string rest = sample_safetensors().substr(8);
  for (const uint64_t length :
       {0ull, 1ull, (1ull << 31) - 1, 1ull << 31, (1ull << 31) + 1, (1ull << 32) - 1, 1ull << 32,
        (1ull << 32) + 1, (1ull << 63) - 1, 1ull << 63, ~0ull, 100'000'000ull, 100'000'001ull}) {
    std::string bytes;
    append_number<uint64_t>(bytes, length);
    EXPECT_NE(open_and_walk(bytes + rest), "") << length;
  }
}

TEST(HostileSafetensors, SurvivesTruncationAtEveryByteAndOneByteMore) {
  const std::string whole = sample_safetensors();
  EXPECT_EQ(open_and_walk(whole), "");
  for (size_t length = 0; length < whole.size(); ++length) {
    ASSERT_NE(open_and_walk(whole.substr(0, length)), "") << length;
  }
  EXPECT_NE(open_and_walk(whole + "x"), "");
}

TEST(HostileSafetensors, SurvivesRandomBitFlips) {
  const std::string whole = sample_safetensors();
  std::mt19937 random(1);
  for (int run = 0; run < 10'000; ++run) {
    std::string bytes = whole;
    for (int flips = 1 + static_cast<int>(random() % 6); flips > 0; --flips) {
      bytes[random() % bytes.size()] ^= static_cast<char>(1 << (random() % 8));
    }
    open_and_walk(bytes);
  }
}

TEST(HostileSafetensors, StaysWithinItsHeapWithAsManyTensorsAsAllowed) {
  std::string header = "{";
  for (int i = 0; i < 65'536; ++i) {
    header += safetensors_entry("t" + std::to_string(i), "U8", "0", "0,0") + ",";
  }
  std::string full = header;
  full.back() = '}';
  EXPECT_EQ(error_of(full, 0), "");
  EXPECT_THAT(error_of(header + safetensors_entry("more", "U8", "0", "0,0") + "}", 0),
              HasSubstr("more than 65536 tensors"));
}

TEST(HostileSafetensors, RefusesAShapeWithoutEnd) {
  std::string dims = "1";
  for (int i = 0; i < 1'000'000; ++i) dims += ",1";
  EXPECT_THAT(error_of("{" + safetensors_entry("a", "U8", dims, "0,1") + "}", 1),
              HasSubstr("more than 16 dimensions"));
}

}  // namespace
}  // namespace quire::formats
