#include "formats/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "formats/gguf_builder.h"
#include "formats/heap_meter.h"
#include "formats/memory_file_system.h"

namespace quire::formats {
namespace {

using ::testing::HasSubstr;

constexpr const char* kPath = "m.gguf";

Result<GgufFile> open_bytes(const std::string& bytes, OpenMode mode = OpenMode::kWeights) {
  static MemoryFileSystem files;
  files.put(kPath, bytes);
  return GgufFile::open(files, kPath, mode);
}

std::string error_of(const std::string& bytes) {
  const auto result = open_bytes(bytes);
  return result.ok() ? "no error" : result.error().message;
}

std::string split_part(int number, int count, const std::string& tensor, int total_tensors) {
  GgufBuilder builder;
  builder.number<uint16_t>("split.no", static_cast<uint16_t>(number))
      .number<uint16_t>("split.count", static_cast<uint16_t>(count))
      .number<int32_t>("split.tensors.count", total_tensors);
  if (number == 0) builder.string("general.architecture", "llama");
  if (!tensor.empty()) builder.tensor({tensor, {8}, 0, std::string(32, 't')});
  return builder.build();
}

TEST(Gguf, ReadsTensorsWithTheSlowestDimensionFirst) {
  const GgufFile file = open_bytes(sample_gguf().build()).value();

  ASSERT_EQ(file.tensors().tensors().size(), 3u);
  const TensorInfo* q = file.tensors().find("blk.0.attn_q.weight");
  ASSERT_NE(q, nullptr);
  EXPECT_EQ(q->shape, (std::vector<int64_t>{3, 64}));
  EXPECT_EQ(num_elements(*q), 192);
  EXPECT_EQ(readable_type(*q).value(), ElementType::Q4_0);
  EXPECT_EQ(q->type_name, "q4_0");
  ASSERT_EQ(q->bytes.size(), 2u * 3 * 18);
  EXPECT_EQ(q->bytes.front(), std::byte{'q'});
  EXPECT_EQ(q->bytes.back(), std::byte{'q'});
  EXPECT_EQ(file.tensors().find("blk.0.attn_q"), nullptr);
}

TEST(Gguf, ReadsVersion2TheSameWay) {
  GgufBuilder builder = sample_gguf();
  builder.version = 2;
  EXPECT_EQ(open_bytes(builder.build()).value().tensors().tensors().size(), 3u);
}

TEST(Gguf, ListsATensorOfAnUnreadableTypeButRefusesToReadIt) {
  const GgufFile file = open_bytes(sample_gguf().build()).value();

  const TensorInfo* k = file.tensors().find("blk.0.attn_k.weight");
  ASSERT_NE(k, nullptr);
  EXPECT_EQ(k->type, std::nullopt);
  EXPECT_EQ(k->num_bytes, 148u);
  const auto type = readable_type(*k);
  ASSERT_FALSE(type.ok());
  EXPECT_EQ(type.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(
      type.error().message,
      HasSubstr("tensor blk.0.attn_k.weight is stored as iq2_xs, which Quire does not read"));
}

TEST(Gguf, ListsTensorsOfTypesThatNobodyKnowsYet) {
  GgufBuilder builder;
  builder.tensor({"future", {7}, 12345, std::string(32, 'x')});
  builder.tensor({"past", {32}, 4, std::string(32, 'x')});
  const GgufFile file = open_bytes(builder.build()).value();

  EXPECT_THAT(readable_type(*file.tensors().find("future")).error().message,
              HasSubstr("stored as type 12345"));
  EXPECT_THAT(readable_type(*file.tensors().find("past")).error().message, HasSubstr("q4_2"));
}

TEST(Gguf, RefusesForeignVersionsInOneSentence) {
  GgufBuilder builder = sample_gguf();
  builder.version = 1;
  EXPECT_THAT(error_of(builder.build()), HasSubstr("version 1, which is obsolete"));
  builder.version = 4;
  EXPECT_THAT(error_of(builder.build()), HasSubstr("version 4, but Quire reads"));
  builder.version = 0x03000000;
  EXPECT_THAT(error_of(builder.build()), HasSubstr("big-endian"));
  builder.magic = "GGUG";
  EXPECT_THAT(error_of(builder.build()), HasSubstr("is not a GGUF file"));
}

TEST(Gguf, RefusesEqualKeysAndEqualTensorNames) {
  EXPECT_THAT(error_of(sample_gguf().number<uint8_t>("llama.block_count", 3).build()),
              HasSubstr("key llama.block_count stands twice"));
  EXPECT_THAT(error_of(sample_gguf().tensor({"norm.weight", {1}, 0, "1234"}).build()),
              HasSubstr("tensor norm.weight stands twice"));
}

TEST(Gguf, RefusesTensorsThatOverlap) {
  GgufBuilder builder;
  builder.tensor({"first", {16}, 0, std::string(64, 'a')});
  builder.tensor({"second", {8}, 0, std::string(32, 'b'), 32});
  EXPECT_THAT(error_of(builder.build()), HasSubstr("tensors first and second overlap"));
}

TEST(Gguf, AcceptsAnyOrderOfDataAndHolesInIt) {
  GgufBuilder builder;
  builder.tensor({"first", {8}, 0, std::string(32, 'a'), 96});
  builder.tensor({"second", {8}, 0, std::string(96, 'b'), 0});
  const GgufFile file = open_bytes(builder.build()).value();
  EXPECT_EQ(file.tensors().find("second")->bytes.front(), std::byte{'a'});
}

TEST(Gguf, NamesTheTensorThatTheFileIsTooShortFor) {
  const std::string whole = sample_gguf().build();
  // The last tensor's 148 bytes are padded to 160.
  EXPECT_THAT(error_of(whole.substr(0, whole.size() - 13)),
              HasSubstr("tensor blk.0.attn_k.weight lies at offset"));
  EXPECT_EQ(error_of(whole.substr(0, whole.size() - 12)), "no error");
}

TEST(Gguf, OpensAHeaderWithoutItsWeightsWhenOnlyMetadataIsWanted) {
  std::string bytes = sample_gguf().build();
  bytes.resize(bytes.size() - 250);

  const GgufFile file = open_bytes(bytes, OpenMode::kMetadataOnly).value();

  const TensorInfo* q = file.tensors().find("blk.0.attn_q.weight");
  ASSERT_NE(q, nullptr);
  EXPECT_EQ(q->num_bytes, 108u);
  EXPECT_TRUE(q->bytes.empty());
  file.tensors().release(*q);  // nothing to release, and no harm
}

TEST(Gguf, OpensAFileOfMetadataAlone) {
  EXPECT_EQ(open_bytes(GgufBuilder().string("tokenizer.ggml.model", "gpt2").build())
                .value()
                .tensors()
                .tensors()
                .size(),
            0u);
}

TEST(Gguf, ReleasesExactlyTheBytesOfATensor) {
  MemoryFileSystem files;
  const std::string bytes = sample_gguf().build();
  files.put(kPath, bytes);
  const GgufFile file = GgufFile::open(files, kPath).value();

  file.tensors().release(*file.tensors().find("blk.0.attn_q.weight"));

  const uint64_t data_begin = bytes.find(std::string(16, '\x3F'));
  EXPECT_THAT(files.releases(),
              ::testing::ElementsAre(MemoryFileSystem::Release{data_begin + 32, 108}));
}

TEST(Gguf, DoesNotCopyItsStrings) {
  const std::vector<std::string> tokens(300'000, "a token of the usual length");
  const std::string bytes = GgufBuilder().strings("tokenizer.ggml.tokens", tokens).build();
  MemoryFileSystem files;
  files.put(kPath, bytes);
  HeapMeter meter;

  const auto file = GgufFile::open(files, kPath);

  ASSERT_TRUE(file.ok());
  // The fake's mapping is one copy of the file; nothing else may grow with it.
  EXPECT_LT(meter.peak_bytes(), static_cast<int64_t>(bytes.size()) + 100'000);
  const auto views =
      file->metadata().require<std::vector<std::string_view>>("tokenizer.ggml.tokens").value();
  ASSERT_EQ(views.size(), tokens.size());
  EXPECT_EQ(views.back(), tokens.back());
}

TEST(GgufSplit, OpensTheWholeSetByItsFirstPart) {
  MemoryFileSystem files;
  files.put("d/m-00001-of-00003.gguf", split_part(0, 3, "a", 2));
  files.put("d/m-00002-of-00003.gguf", split_part(1, 3, "", 2));
  files.put("d/m-00003-of-00003.gguf", split_part(2, 3, "b", 2));

  const GgufFile file = GgufFile::open(files, "d/m-00001-of-00003.gguf").value();

  EXPECT_EQ(file.tensors().files().size(), 3u);
  EXPECT_EQ(file.tensors().find("b")->file, 2);
  EXPECT_EQ(file.metadata().require<std::string_view>("general.architecture").value(), "llama");
}

TEST(GgufSplit, SaysWhichPartIsMissing) {
  MemoryFileSystem files;
  files.put("m-00001-of-00003.gguf", split_part(0, 3, "a", 3));
  files.put("m-00002-of-00003.gguf", split_part(1, 3, "b", 3));

  const auto result = GgufFile::open(files, "m-00001-of-00003.gguf");

  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(result.error().message, HasSubstr("m-00003-of-00003.gguf is missing"));
  EXPECT_TRUE(GgufFile::open(files, "m-00001-of-00003.gguf", OpenMode::kMetadataOnly).ok());
}

TEST(GgufSplit, NamesTheFirstPartWhenGivenALaterOne) {
  MemoryFileSystem files;
  files.put("m-00002-of-00002.gguf", split_part(1, 2, "a", 2));
  EXPECT_THAT(GgufFile::open(files, "m-00002-of-00002.gguf").error().message,
              HasSubstr("part 2 of 2; open the first part, m-00001-of-00002.gguf"));
}

TEST(GgufSplit, RefusesSetsThatDoNotBelongTogether) {
  const std::string first = "m-00001-of-00002.gguf";
  const std::string second = "m-00002-of-00002.gguf";
  const auto error_with = [&](const std::string& a, const std::string& b) {
    MemoryFileSystem files;
    files.put(first, a);
    files.put(second, b);
    const auto result = GgufFile::open(files, first);
    return result.ok() ? "no error" : result.error().message;
  };
  EXPECT_EQ(error_with(split_part(0, 2, "a", 2), split_part(1, 2, "b", 2)), "no error");
  EXPECT_THAT(error_with(split_part(0, 2, "a", 2), split_part(1, 2, "a", 2)),
              HasSubstr("tensor a stands in both " + first + " and " + second));
  EXPECT_THAT(error_with(split_part(0, 2, "a", 3), split_part(1, 2, "b", 2)),
              HasSubstr("split.tensors.count is 3, but the parts hold 2 tensors"));
  EXPECT_THAT(error_with(split_part(0, 2, "a", 2), split_part(0, 2, "b", 2)),
              HasSubstr("says that it is part 1 of 2, but its name says part 2 of 2"));
  EXPECT_THAT(error_with(split_part(0, 3, "a", 2), split_part(1, 3, "b", 2)),
              HasSubstr("does not end in -00001-of-00003.gguf"));
  EXPECT_THAT(error_with(split_part(5, 3, "a", 2), ""), HasSubstr("split.no is 5"));
  EXPECT_THAT(error_with(split_part(0, 2, "a", 2), "garbage"), HasSubstr("not a GGUF file"));
}

TEST(GgufSplit, ReportsAPartThatCannotBeRead) {
  MemoryFileSystem files;
  files.put("m-00001-of-00002.gguf", split_part(0, 2, "a", 2));
  files.put("m-00002-of-00002.gguf", split_part(1, 2, "b", 2));
  files.break_reads_of("m-00002-of-00002.gguf");
  const auto result = GgufFile::open(files, "m-00001-of-00002.gguf");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kIo);
  EXPECT_THAT(result.error().message, HasSubstr("m-00002-of-00002.gguf"));
}

}  // namespace
}  // namespace quire::formats
