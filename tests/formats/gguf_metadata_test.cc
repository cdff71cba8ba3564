#include "formats/gguf_metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "formats/gguf.h"
#include "formats/gguf_builder.h"
#include "formats/memory_file_system.h"

namespace quire::formats {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// The metadata of a file, together with what keeps it alive.
struct Opened {
  std::unique_ptr<MemoryFileSystem> files = std::make_unique<MemoryFileSystem>();
  std::optional<GgufFile> file;
  const GgufMetadata& metadata() const { return file->metadata(); }
};

Opened open(const GgufBuilder& builder) {
  Opened opened;
  opened.files->put("m.gguf", builder.build());
  opened.file = GgufFile::open(*opened.files, "m.gguf").value();
  return opened;
}

TEST(GgufMetadata, GivesEveryScalarBackExactly) {
  const Opened opened = open(sample_gguf());
  const GgufMetadata& m = opened.metadata();
  EXPECT_EQ(m.require<std::string_view>("general.architecture").value(), "llama");
  EXPECT_EQ(m.require<uint32_t>("test.u8").value(), 200u);
  EXPECT_EQ(m.require<int32_t>("test.i8").value(), -3);
  EXPECT_EQ(m.require<int32_t>("test.u16").value(), 60'000);
  EXPECT_EQ(m.require<int64_t>("test.i16").value(), -300);
  EXPECT_EQ(m.require<int32_t>("test.i32").value(), -70'000);
  EXPECT_EQ(m.require<uint64_t>("test.u64").value(), 1ull << 63);
  EXPECT_EQ(m.require<int64_t>("test.i64").value(), -(int64_t{1} << 40));
  EXPECT_EQ(m.require<float>("llama.attention.layer_norm_rms_epsilon").value(), 1e-5f);
  EXPECT_EQ(m.require<double>("test.f64").value(), 2.5);
  EXPECT_EQ(m.require<float>("test.u16").value(), 60'000.0f);
  EXPECT_EQ(m.require<bool>("test.bool").value(), true);
  EXPECT_THAT(m.require<std::vector<int32_t>>("tokenizer.ggml.token_type").value(),
              ElementsAre(1, 1, 3));
  EXPECT_THAT(m.require<std::vector<float>>("tokenizer.ggml.scores").value(),
              ElementsAre(0.5f, -1.0f, 0.0f));
  EXPECT_THAT(m.require<std::vector<bool>>("test.flags").value(), ElementsAre(true, false));
  EXPECT_THAT(m.require<std::vector<std::string_view>>("tokenizer.ggml.tokens").value(),
              ElementsAre("a", "", "<|end|>"));
}

TEST(GgufMetadata, TellsAbsenceFromAWrongType) {
  const Opened opened = open(sample_gguf());
  const GgufMetadata& m = opened.metadata();

  EXPECT_EQ(m.get<uint32_t>("llama.context_length").value(), std::nullopt);
  EXPECT_EQ(m.get<uint32_t>("llama.block_count").value(), 2u);
  EXPECT_EQ(m.require<uint32_t>("llama.context_length").error().message,
            "the file has no key llama.context_length");
  EXPECT_EQ(m.get<uint32_t>("general.architecture").error().message,
            "key general.architecture is a string, expected an unsigned integer");
  EXPECT_EQ(m.get<std::string_view>("tokenizer.ggml.tokens").error().message,
            "key tokenizer.ggml.tokens is an array of 3 strings, expected a string");
  EXPECT_EQ(m.get<std::vector<float>>("tokenizer.ggml.token_type").error().message,
            "key tokenizer.ggml.token_type is an array of 3 i32s, expected an array of floats");
  EXPECT_EQ(m.get<bool>("test.u8").error().message, "key test.u8 is a u8, expected a bool");
  EXPECT_EQ(m.get<uint32_t>("test.f64").error().message,
            "key test.f64 is an f64, expected an unsigned integer");
}

TEST(GgufMetadata, RefusesIntegersThatDoNotFit) {
  const Opened opened = open(sample_gguf());
  const GgufMetadata& m = opened.metadata();
  EXPECT_EQ(m.get<uint32_t>("test.i8").error().message,
            "key test.i8 holds -3, which does not fit into an unsigned integer of 32 bits");
  EXPECT_EQ(m.get<int64_t>("test.u64").error().message,
            "key test.u64 holds 9223372036854775808, which does not fit into a signed integer of "
            "64 bits");
  EXPECT_FALSE(m.get<int32_t>("test.i64").ok());
}

TEST(GgufMetadata, RefusesDoublesBeyondAFloat) {
  const Opened opened = open(GgufBuilder()
                                 .number<double>("big", 1e300)
                                 .number<double>("inf", std::numeric_limits<double>::infinity())
                                 .numbers<double>("list", {1.0, 1e300}));
  EXPECT_FALSE(opened.metadata().get<float>("big").ok());
  EXPECT_TRUE(std::isinf(opened.metadata().require<float>("inf").value()));
  EXPECT_FALSE(opened.metadata().get<std::vector<float>>("list").ok());
}

TEST(GgufMetadata, ReadsAnEmptyArrayAsAnyArray) {
  const Opened opened = open(GgufBuilder().numbers<int32_t>("tokenizer.ggml.merges", {}));
  EXPECT_THAT(
      opened.metadata().require<std::vector<std::string_view>>("tokenizer.ggml.merges").value(),
      ElementsAre());
}

/// A value of each of the 13 types under one key, as `convert` sees it.
std::vector<GgufBuilder> files_with_every_type(const std::string& key) {
  std::vector<GgufBuilder> all;
  const auto add = [&](auto fill) {
    all.emplace_back();
    fill(all.back());
  };
  add([&](GgufBuilder& b) { b.number<uint8_t>(key, 255); });
  add([&](GgufBuilder& b) { b.number<int8_t>(key, -128); });
  add([&](GgufBuilder& b) { b.number<uint16_t>(key, 65535); });
  add([&](GgufBuilder& b) { b.number<int16_t>(key, -32768); });
  add([&](GgufBuilder& b) { b.number<uint32_t>(key, 0xFFFFFFFFu); });
  add([&](GgufBuilder& b) { b.number<int32_t>(key, -1); });
  add([&](GgufBuilder& b) { b.number<float>(key, std::nanf("")); });
  add([&](GgufBuilder& b) { b.number<bool>(key, true); });
  add([&](GgufBuilder& b) { b.string(key, "text"); });
  add([&](GgufBuilder& b) { b.number<uint64_t>(key, ~0ull); });
  add([&](GgufBuilder& b) { b.number<int64_t>(key, std::numeric_limits<int64_t>::min()); });
  add([&](GgufBuilder& b) { b.number<double>(key, 1e308); });
  add([&](GgufBuilder& b) { b.numbers<uint8_t>(key, {1, 2, 3}); });
  add([&](GgufBuilder& b) { b.numbers<int64_t>(key, {-1, int64_t{1} << 62}); });
  add([&](GgufBuilder& b) { b.numbers<float>(key, {1.0f}); });
  add([&](GgufBuilder& b) { b.numbers<bool>(key, {true}); });
  add([&](GgufBuilder& b) { b.strings(key, {"x", "y"}); });
  add([&](GgufBuilder& b) {  // an array of one array of two u8
    std::string value;
    append_number<uint32_t>(value, 9);
    append_number<uint64_t>(value, 1);
    append_number<uint32_t>(value, 0);
    append_number<uint64_t>(value, 2);
    b.raw(key, 9, value + "ab");
  });
  return all;
}

template <class T>
void expect_value_or_sentence(const GgufMetadata& metadata, const std::string& key) {
  const auto result = metadata.get<T>(key);
  if (result.ok()) {
    EXPECT_TRUE(result->has_value());
  } else {
    EXPECT_THAT(result.error().message, HasSubstr("key " + key));
  }
}

TEST(GgufMetadata, AnswersEveryKeyOfEveryTypeWithAValueOrASentence) {
  for (const std::string key :
       {"general.architecture", "general.alignment", "split.no", "split.count",
        "split.tensors.count", "llama.context_length", "llama.attention.head_count_kv",
        "llama.rope.freq_base", "llama.rope.scaling.type", "tokenizer.ggml.model",
        "tokenizer.ggml.tokens", "tokenizer.ggml.scores", "tokenizer.ggml.token_type",
        "tokenizer.ggml.merges", "tokenizer.ggml.bos_token_id", "tokenizer.ggml.add_bos_token",
        "tokenizer.chat_template"}) {
    for (const GgufBuilder& builder : files_with_every_type(key)) {
      MemoryFileSystem files;
      files.put("m.gguf", builder.build());
      const auto file = GgufFile::open(files, "m.gguf");
      if (!file.ok()) {  // only keys that opening itself reads can be wrong there
        EXPECT_THAT(file.error().message, ::testing::AnyOf(HasSubstr("general.alignment"),
                                                           HasSubstr("split"), HasSubstr("part")));
        continue;
      }
      const GgufMetadata& m = file->metadata();
      expect_value_or_sentence<bool>(m, key);
      expect_value_or_sentence<int32_t>(m, key);
      expect_value_or_sentence<uint32_t>(m, key);
      expect_value_or_sentence<int64_t>(m, key);
      expect_value_or_sentence<uint64_t>(m, key);
      expect_value_or_sentence<float>(m, key);
      expect_value_or_sentence<double>(m, key);
      expect_value_or_sentence<std::string_view>(m, key);
      expect_value_or_sentence<std::vector<bool>>(m, key);
      expect_value_or_sentence<std::vector<int32_t>>(m, key);
      expect_value_or_sentence<std::vector<float>>(m, key);
      expect_value_or_sentence<std::vector<std::string_view>>(m, key);
      EXPECT_FALSE(describe(m.values().front()).empty());
    }
  }
}

}  // namespace
}  // namespace quire::formats
