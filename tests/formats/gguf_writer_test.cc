#include "formats/gguf_writer.h"

#include <gtest/gtest.h>

#include "formats/gguf.h"
#include "formats/gguf_builder.h"
#include "formats/memory_file_system.h"

namespace quire::formats {
namespace {

/// A file in memory, on a disk of limited size.
class MemoryNewFile final : public NewFile {
 public:
  explicit MemoryNewFile(uint64_t room = UINT64_MAX) : room_(room) {}
  Result<void> reserve(uint64_t bytes) override {
    reserved = bytes;
    return {};
  }
  Result<void> append(std::span<const std::byte> bytes) override {
    if (content.size() + bytes.size() > room_) return Error{ErrorCode::kIo, "the disk is full"};
    content.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return {};
  }
  Result<void> commit() override { return {}; }

  std::string content;
  uint64_t reserved = 0;

 private:
  uint64_t room_;
};

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

GgufFile opened(MemoryFileSystem& files, const std::string& content) {
  files.put("m.gguf", content);
  return GgufFile::open(files, "m.gguf").value();
}

TEST(GgufWriter, WritesWhatTheReaderReads) {
  GgufWriter writer;
  writer.set_string("general.architecture", "llama");
  writer.set_u32("u32", 4'000'000'000);
  writer.set_f32("f32", -1.5f);
  writer.set_bool("bool", true);
  writer.set_strings("strings", std::vector<std::string>{"a", "", "\xFF"});
  writer.set_u32s("u32s", std::vector<uint32_t>{1, 2});
  writer.set_i32s("i32s", std::vector<int32_t>{-1, 3});
  writer.set_f32s("f32s", std::vector<float>{0.5f});
  writer.set_bools("bools", {true, false});
  writer.add_tensor("norm", std::vector<int64_t>{3}, ElementType::F32);
  writer.add_tensor("matrix", std::vector<int64_t>{2, 64}, ElementType::Q8_0);
  MemoryNewFile file;
  ASSERT_TRUE(writer.begin(file).ok());
  ASSERT_TRUE(writer.append(bytes_of(std::string(12, 'n'))).ok());
  ASSERT_TRUE(writer.append(bytes_of(std::string(68, 'm'))).ok());  // row by row
  ASSERT_TRUE(writer.append(bytes_of(std::string(68, 'w'))).ok());
  writer.finish();
  EXPECT_EQ(file.content.size(), writer.file_bytes());
  EXPECT_EQ(file.reserved, writer.file_bytes());

  MemoryFileSystem files;
  const GgufFile read = opened(files, file.content);
  const GgufMetadata& metadata = read.metadata();
  EXPECT_EQ(metadata.require<std::string_view>("general.architecture").value(), "llama");
  EXPECT_EQ(metadata.require<uint32_t>("u32").value(), 4'000'000'000);
  EXPECT_EQ(metadata.require<float>("f32").value(), -1.5f);
  EXPECT_EQ(metadata.require<bool>("bool").value(), true);
  EXPECT_EQ(metadata.require<std::vector<std::string_view>>("strings").value(),
            (std::vector<std::string_view>{"a", "", "\xFF"}));
  EXPECT_EQ(metadata.require<std::vector<int32_t>>("u32s").value(), (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(metadata.require<std::vector<int32_t>>("i32s").value(), (std::vector<int32_t>{-1, 3}));
  EXPECT_EQ(metadata.require<std::vector<float>>("f32s").value(), (std::vector<float>{0.5f}));
  EXPECT_EQ(metadata.require<std::vector<bool>>("bools").value(), (std::vector<bool>{true, false}));
  const TensorInfo* matrix = read.tensors().find("matrix");
  ASSERT_NE(matrix, nullptr);
  EXPECT_EQ(matrix->shape, (std::vector<int64_t>{2, 64}));
  EXPECT_EQ(matrix->type, ElementType::Q8_0);
  EXPECT_EQ(matrix->bytes.front(), std::byte{'m'});
  EXPECT_EQ(matrix->bytes.back(), std::byte{'w'});
}

TEST(GgufWriter, CopiesEveryKindOfValueByteForByte) {
  MemoryFileSystem files;
  const GgufFile source = opened(files, sample_gguf().build());
  GgufWriter writer;
  for (const GgufValue& value : source.metadata().values()) writer.copy(value);
  MemoryFileSystem copies;
  const GgufFile copy = opened(copies, writer.header());

  ASSERT_EQ(copy.metadata().values().size(), source.metadata().values().size());
  for (const GgufValue& value : source.metadata().values()) {
    const GgufValue* twin = copy.metadata().find(value.key);
    ASSERT_NE(twin, nullptr) << value.key;
    EXPECT_EQ(describe(*twin), describe(value));
    EXPECT_TRUE(std::ranges::equal(twin->payload, value.payload)) << value.key;
  }
}

TEST(GgufWriter, KeepsTheLaterValueOfAKeySetTwice) {
  GgufWriter writer;
  writer.set_u32("a", 1);
  writer.set_u32("b", 2);
  writer.set_string("a", "new");
  MemoryFileSystem files;
  const GgufFile read = opened(files, writer.header());
  ASSERT_EQ(read.metadata().values().size(), 2u);
  EXPECT_EQ(read.metadata().values()[0].key, "a");
  EXPECT_EQ(read.metadata().require<std::string_view>("a").value(), "new");
}

TEST(GgufWriter, WritesEveryTypeThatIsRead) {
  GgufWriter writer;
  std::vector<ElementType> types;
  for (const char* name : {"f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl",
                           "q2_k", "q3_k", "q4_k", "q5_k", "q6_k"}) {
    types.push_back(element_type_from_name(name).value());
    writer.add_tensor(name, std::vector<int64_t>{3, 256}, types.back());
  }
  MemoryNewFile file;
  ASSERT_TRUE(writer.begin(file).ok());
  for (const ElementType type : types) {
    ASSERT_TRUE(writer.append(bytes_of(std::string(*stored_bytes(type, 768), 'x'))).ok());
  }
  MemoryFileSystem files;
  const GgufFile read = opened(files, file.content);
  for (const ElementType type : types) {
    EXPECT_EQ(read.tensors().find(info(type).name)->type, type);
  }
}

TEST(GgufWriter, PassesOnThatTheDiskIsFull) {
  GgufWriter writer;
  writer.add_tensor("t", std::vector<int64_t>{64}, ElementType::F32);
  MemoryNewFile file(writer.header().size() + 100);
  ASSERT_TRUE(writer.begin(file).ok());
  const auto appended = writer.append(bytes_of(std::string(256, 't')));
  ASSERT_FALSE(appended.ok());
  EXPECT_EQ(appended.error().code, ErrorCode::kIo);
}

TEST(GgufWriterDeathTest, AbortsWhenATensorIsNotWrittenAsItWasDeclared) {
  GgufWriter writer;
  writer.add_tensor("t", std::vector<int64_t>{8}, ElementType::F32);
  MemoryNewFile file;
  ASSERT_TRUE(writer.begin(file).ok());
  EXPECT_DEATH(writer.finish(), "current_");
  EXPECT_DEATH((void)writer.append(bytes_of(std::string(33, 't'))), "end");
  GgufWriter other;
  EXPECT_DEATH(other.add_tensor("t", std::vector<int64_t>{33}, ElementType::Q8_0), "whole blocks");
}

}  // namespace
}  // namespace quire::formats
