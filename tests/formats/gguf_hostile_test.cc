// What a lying or damaged GGUF file can do: end in one sentence, within a bounded heap.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "formats/gguf.h"
#include "formats/gguf_builder.h"
#include "formats/heap_meter.h"
#include "formats/memory_file_system.h"
#include "formats/walk_everything.h"

namespace quire::formats {
namespace {

using ::testing::HasSubstr;

const std::vector<uint64_t> kBoundaries = {0,
                                           1,
                                           (1ull << 31) - 1,
                                           1ull << 31,
                                           (1ull << 31) + 1,
                                           (1ull << 32) - 1,
                                           1ull << 32,
                                           (1ull << 32) + 1,
                                           (1ull << 63) - 1,
                                           1ull << 63,
                                           ~0ull};

/// Opens the bytes and reads whatever opened; checks the heap and the form of the error.
/// Returns the error, or "" if the file is valid.
std::string open_and_walk(const std::string& bytes) {
  MemoryFileSystem files;
  files.put("m.gguf", bytes);
  // The fake's mapping is a copy of the file on the heap, beside what the parser may take.
  const int64_t allowed = static_cast<int64_t>(5 * bytes.size()) + (16 << 20);
  HeapMeter meter;
  const auto file = GgufFile::open(files, "m.gguf");
  EXPECT_LE(meter.peak_bytes(), allowed);
  if (file.ok()) {
    walk_everything(file->metadata(), file->tensors());
    return "";
  }
  EXPECT_FALSE(file.error().message.empty());
  EXPECT_LT(file.error().message.size(), 600u);
  EXPECT_EQ(file.error().message.find('\n'), std::string::npos);
  return file.error().message;
}

template <class T>
std::string with_number_at(std::string bytes, size_t position, T value) {
  std::memcpy(bytes.data() + position, &value, sizeof(T));
  return bytes;
}

TEST(HostileGguf, SurvivesEveryBoundaryInEveryCount) {
  for (const uint64_t value : kBoundaries) {
    GgufBuilder builder = sample_gguf();
    builder.claimed_tensors = value;
    const std::string tensors_error = open_and_walk(builder.build());
    EXPECT_EQ(tensors_error.empty(), value <= 1) << value << tensors_error;
    builder.claimed_tensors.reset();
    builder.claimed_keys = value;
    EXPECT_NE(open_and_walk(builder.build()), "") << value;
  }
}

TEST(HostileGguf, HoldsItsCountsAgainstItsSizeBeforeItAllocates) {
  GgufBuilder builder;
  builder.claimed_tensors = 60'000;
  EXPECT_THAT(open_and_walk(builder.build()), HasSubstr("claims 60000 tensors, more than its 24"));
  builder.claimed_tensors.reset();
  builder.claimed_keys = 16'000;
  EXPECT_THAT(open_and_walk(builder.build()), HasSubstr("claims 16000 metadata keys, more than"));
}

TEST(HostileGguf, SurvivesEveryBoundaryInEveryDimension) {
  for (const uint32_t type : {0u, 1u, 2u, 8u, 12u, 14u, 17u, 28u, 4u, 999u}) {
    for (const uint64_t a : kBoundaries) {
      for (const uint64_t b : kBoundaries) {
        GgufBuilder builder;
        builder.tensor({"t", {a, b, 1, 1}, type, std::string(64, 't')});
        const std::string error = open_and_walk(builder.build());
        const bool few = (a == 1 && b == 1) && (type == 0 || type == 1 || type == 28);
        if (few) {
          EXPECT_EQ(error, "") << a << " x " << b << " of " << type;
        } else if (type != 4 && type != 999) {  // a type of unknown size may have any shape
          EXPECT_NE(error, "") << a << " x " << b << " of " << type;
        }
      }
    }
  }
}

TEST(HostileGguf, RefusesEveryNumberOfDimensionsBut1To4) {
  for (const uint32_t num_dims : {0u, 5u, 0x7FFFFFFFu, 0x80000000u, 0xFFFFFFFFu}) {
    GgufBuilder builder;
    builder.tensor({"t", {8}, 0, std::string(32, 't')});
    const std::string bytes = builder.build();
    EXPECT_THAT(open_and_walk(with_number_at(bytes, 24 + 8 + 1, num_dims)),
                HasSubstr("dimensions"));
  }
}

TEST(HostileGguf, SurvivesEveryBoundaryInEveryOffset) {
  for (const uint64_t value : kBoundaries) {
    for (const uint64_t nudge : {0ull, 31ull, 32ull}) {
      const uint64_t offset = value - nudge;
      GgufBuilder builder;
      builder.tensor({"t", {8}, 0, std::string(32, 't'), offset});
      EXPECT_EQ(open_and_walk(builder.build()).empty(), offset == 0) << offset;
    }
  }
}

TEST(HostileGguf, SurvivesEveryBoundaryAsAlignment) {
  for (const uint64_t value : kBoundaries) {
    GgufBuilder builder;
    builder.number<uint64_t>("general.alignment", value);
    builder.tensor({"t", {8}, 0, std::string(32, 't')});
    EXPECT_NE(open_and_walk(builder.build()), "") << value;
  }
  for (const uint64_t power : {8ull, 16ull, 64ull, 4096ull}) {
    GgufBuilder builder;
    builder.alignment = power;
    builder.number<uint64_t>("general.alignment", power);
    builder.tensor({"t", {8}, 0, std::string(32, 't')});
    EXPECT_EQ(open_and_walk(builder.build()), "") << power;
  }
  GgufBuilder negative;
  negative.number<int32_t>("general.alignment", -32);
  EXPECT_THAT(open_and_walk(negative.build()), HasSubstr("general.alignment holds -32"));
}

TEST(HostileGguf, SurvivesEveryBoundaryAsLengthOfAString) {
  for (const uint64_t value : kBoundaries) {
    std::string text;
    append_number(text, value);
    GgufBuilder as_value;
    as_value.raw("key", 8, text);
    EXPECT_EQ(open_and_walk(as_value.build()).empty(), value == 0) << value;

    const std::string in_key = GgufBuilder().number<uint8_t>("key", 1).build();
    EXPECT_NE(open_and_walk(with_number_at(in_key, 24, value)), "") << value;

    GgufBuilder with_tensor;
    with_tensor.tensor({"t", {8}, 0, std::string(32, 't')});
    EXPECT_EQ(open_and_walk(with_number_at(with_tensor.build(), 24, value)).empty(), value == 1);
  }
}

TEST(HostileGguf, SurvivesEveryBoundaryAsLengthOfEveryArray) {
  for (uint32_t type = 0; type <= 14; ++type) {
    for (const uint64_t value : kBoundaries) {
      std::string array;
      append_number<uint32_t>(array, type);
      append_number(array, value);
      GgufBuilder builder;
      builder.raw("key", 9, array);
      const bool valid = value == 0 && type <= 12;
      EXPECT_EQ(open_and_walk(builder.build()).empty(), valid) << type << " x " << value;
    }
  }
}

TEST(HostileGguf, RefusesArraysNestedWithoutEnd) {
  std::string value;
  for (int i = 0; i < 100'000; ++i) {
    append_number<uint32_t>(value, 9);
    append_number<uint64_t>(value, 1);
  }
  EXPECT_THAT(open_and_walk(GgufBuilder().raw("key", 9, value).build()), HasSubstr("nests arrays"));
}

TEST(HostileGguf, RefusesABoolThatIsNeitherTrueNorFalse) {
  EXPECT_THAT(open_and_walk(GgufBuilder().raw("key", 7, "\x02").build()), HasSubstr("key key"));
  std::string array;
  append_number<uint32_t>(array, 7);
  append_number<uint64_t>(array, 3);
  EXPECT_THAT(open_and_walk(GgufBuilder().raw("key", 9, array + "\x01\x01\x7F").build()),
              HasSubstr("neither 0 nor 1"));
}

TEST(HostileGguf, ShowsNoControlCharactersOfItsNames) {
  const std::string error = open_and_walk(GgufBuilder().raw("a\n\x1B[2Jb\xFF", 99, "").build());
  EXPECT_THAT(error, HasSubstr("key a??[2Jb\xEF\xBF\xBD has the unknown value type 99"));
}

TEST(HostileGguf, SurvivesTruncationAtEveryByte) {
  const std::string whole = sample_gguf().build();
  for (size_t length = 0; length + 12 < whole.size(); ++length) {
    ASSERT_NE(open_and_walk(whole.substr(0, length)), "") << length;
  }
}

TEST(HostileGguf, SurvivesEveryByteReplacedByEveryExtreme) {
  const std::string whole = sample_gguf().build();
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const char value : {'\0', '\x01', '\x7F', '\x80', '\xFF'}) {
      std::string bytes = whole;
      bytes[at] = value;
      open_and_walk(bytes);
    }
  }
}

TEST(HostileGguf, SurvivesRandomBitFlips) {
  const std::string whole = sample_gguf().build();
  std::mt19937 random(1);
  for (int run = 0; run < 10'000; ++run) {
    std::string bytes = whole;
    for (int flips = 1 + static_cast<int>(random() % 8); flips > 0; --flips) {
      bytes[random() % bytes.size()] ^= static_cast<char>(1 << (random() % 8));
    }
    open_and_walk(bytes);
  }
}

TEST(HostileGguf, StaysWithinItsHeapWithAsManyTensorsAndKeysAsAllowed) {
  GgufBuilder builder;
  builder.alignment = 8;
  builder.number<uint32_t>("general.alignment", 8);
  for (int i = 1; i < 16'384; ++i) builder.number<uint8_t>("k" + std::to_string(i), 0);
  for (int i = 0; i < 65'536; ++i) {
    builder.tensor({"t" + std::to_string(i), {1, 1, 1, 1}, 24, std::string(8, 'x')});
  }
  EXPECT_EQ(open_and_walk(builder.build()), "");
  builder.number<uint8_t>("one more", 0);
  EXPECT_THAT(open_and_walk(builder.build()), HasSubstr("at most 16384 are accepted"));
}

}  // namespace
}  // namespace quire::formats
