#include "formats/model_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "formats/gguf_builder.h"
#include "formats/memory_file_system.h"
#include "formats/safetensors_builder.h"

namespace quire::formats {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kConfig = R"({"model_type": "llama", "hidden_size": 64})";

std::string error_of(MemoryFileSystem& files, const std::string& path,
                     OpenMode mode = OpenMode::kWeights) {
  const auto model = ModelFiles::open(files, path, mode);
  return model.ok() ? "no error" : model.error().message;
}

std::string index_of(const std::vector<std::pair<std::string, std::string>>& tensors) {
  Json map(Json::Object{});
  for (const auto& [tensor, file] : tensors) map.set(tensor, file);
  return Json().set("weight_map", map).dump();
}

TEST(ModelFiles, TellsGgufByContentWhateverItsName) {
  MemoryFileSystem files;
  files.put("blobs/0a1b2c", sample_gguf().build());

  const ModelFiles model = ModelFiles::open(files, "blobs/0a1b2c").value();

  EXPECT_EQ(model.kind(), ModelFiles::Kind::kGguf);
  ASSERT_NE(model.gguf(), nullptr);
  EXPECT_EQ(model.gguf()->require<std::string_view>("general.architecture").value(), "llama");
  EXPECT_EQ(model.config(), nullptr);
  EXPECT_NE(model.find("norm.weight"), nullptr);
  EXPECT_EQ(model.total_bytes(), sample_gguf().build().size());
  EXPECT_FALSE(model.read_sibling("tokenizer.json").value().has_value());
}

TEST(ModelFiles, OpensAFolderWithOneFile) {
  MemoryFileSystem files;
  files.put("m/config.json", kConfig);
  files.put("m/generation_config.json", R"({"temperature": 0.5})");
  files.put("m/tokenizer.json", "{\"version\":\"1.0\"}");
  files.put("m/model.safetensors", safetensors_of("w"));
  files.put("m/consolidated.safetensors", safetensors_of("w"));  // the same weights again

  const ModelFiles model = ModelFiles::open(files, "m").value();

  EXPECT_EQ(model.kind(), ModelFiles::Kind::kHuggingFace);
  EXPECT_EQ(model.gguf(), nullptr);
  EXPECT_EQ(model.config()->find("hidden_size")->as_int(), 64);
  EXPECT_EQ(model.generation_config()->find("temperature")->as_double(), 0.5);
  EXPECT_THAT(model.files(), ElementsAre("m/model.safetensors"));
  ASSERT_NE(model.find("w"), nullptr);
  const auto tokenizer = model.read_sibling("tokenizer.json").value();
  ASSERT_TRUE(tokenizer.has_value());
  EXPECT_EQ(tokenizer->text(), "{\"version\":\"1.0\"}");
  EXPECT_FALSE(model.read_sibling("tokenizer.model").value().has_value());
}

TEST(ModelFiles, KeepsEverythingValidWhenMoved) {
  MemoryFileSystem files;
  files.put("m.gguf", sample_gguf().build());
  auto opened = std::make_unique<ModelFiles>(ModelFiles::open(files, "m.gguf").value());
  const ModelFiles moved = std::move(*opened);
  opened.reset();

  EXPECT_EQ(moved.gguf()->require<std::string_view>("general.architecture").value(), "llama");
  EXPECT_EQ(moved.find("blk.0.attn_q.weight")->bytes.front(), std::byte{'q'});
}

TEST(ModelFiles, OpensShardsThatAnIndexNames) {
  MemoryFileSystem files;
  files.put("m/config.json", kConfig);
  files.put("m/model.safetensors.index.json",
            index_of({{"a", "s1.safetensors"}, {"b", "s2.safetensors"}, {"c", "s1.safetensors"}}));
  files.put("m/s1.safetensors", safetensors_of("a"));
  files.put("m/s2.safetensors", safetensors_of("b"));
  files.put("m/unrelated.safetensors", safetensors_of("a"));

  const ModelFiles model = ModelFiles::open(files, "m").value();
  EXPECT_THAT(model.files(), ElementsAre("m/s1.safetensors", "m/s2.safetensors"));
  EXPECT_EQ(model.find("b")->file, 1);

  files.remove("m/s2.safetensors");
  EXPECT_THAT(error_of(files, "m"), HasSubstr("m/s2.safetensors is missing"));
}

TEST(ModelFiles, RefusesAnIndexThatLeadsOutOfItsFolder) {
  for (const char* name : {"../s.safetensors", "/etc/passwd", "a/b.safetensors", "..", ""}) {
    MemoryFileSystem files;
    files.put("m/config.json", kConfig);
    files.put("m/model.safetensors.index.json", index_of({{"w", name}}));
    EXPECT_THAT(error_of(files, "m"), HasSubstr("puts tensor w into no file of the folder"))
        << name;
  }
}

TEST(ModelFiles, RefusesAnIndexThatIsNone) {
  MemoryFileSystem files;
  files.put("m/config.json", kConfig);
  for (const char* text : {"{", "{}", "[]", R"({"weight_map":[]})", R"({"weight_map":{}})",
                           R"({"weight_map":{"w":1}})"}) {
    files.put("m/model.safetensors.index.json", text);
    EXPECT_THAT(error_of(files, "m"), HasSubstr("m/model.safetensors.index.json")) << text;
  }
}

TEST(ModelFiles, OpensShardsWithoutAnIndex) {
  MemoryFileSystem files;
  files.put("m/config.json", kConfig);
  files.put("m/model-00001-of-00002.safetensors", safetensors_of("a"));
  EXPECT_THAT(error_of(files, "m"), HasSubstr("m/model-00002-of-00002.safetensors is missing"));

  files.put("m/model-00002-of-00002.safetensors", safetensors_of("b"));
  EXPECT_EQ(ModelFiles::open(files, "m").value().tensors().size(), 2u);
}

TEST(ModelFiles, NamesWhatAFolderLacks) {
  MemoryFileSystem files;
  files.put("empty/readme.md", "hello");
  files.put("noconfig/model.safetensors", safetensors_of("w"));
  files.put("noweights/config.json", kConfig);
  files.put("pickled/config.json", kConfig);
  files.put("pickled/pytorch_model.bin", "PK");
  files.put("two/a.gguf", sample_gguf().build());
  files.put("two/b.gguf", sample_gguf().build());

  EXPECT_THAT(error_of(files, "empty"), HasSubstr("neither config.json nor a GGUF file"));
  EXPECT_THAT(error_of(files, "noconfig"), HasSubstr("noconfig has no config.json"));
  EXPECT_THAT(error_of(files, "noweights"), HasSubstr("has config.json, but no safetensors file"));
  EXPECT_THAT(error_of(files, "pickled"), HasSubstr("does not read pytorch_model.bin"));
  EXPECT_THAT(error_of(files, "two"),
              HasSubstr("holds 2 GGUF models; name one, such as two/a.gguf"));
  EXPECT_THAT(error_of(files, "absent"), HasSubstr("absent"));
  EXPECT_EQ(ModelFiles::open(files, "absent").error().code, ErrorCode::kNotFound);
}

TEST(ModelFiles, OpensAFolderWhoseOnlyModelIsOneGguf) {
  MemoryFileSystem files;
  files.put("m/model.gguf", sample_gguf().build());
  files.put("m/config.json", kConfig);
  const ModelFiles model = ModelFiles::open(files, "m").value();
  EXPECT_EQ(model.kind(), ModelFiles::Kind::kGguf);
  EXPECT_EQ(model.path(), "m/model.gguf");
}

TEST(ModelFiles, SaysWhatAFileIsThatIsNoModel) {
  MemoryFileSystem files;
  files.put("lfs.gguf", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n");
  files.put("model.bin", "PK\x03\x04zip");
  files.put("one.safetensors", safetensors_of("w"));
  files.put("page.gguf", "<!doctype html>");
  files.put("empty.gguf", "");
  files.put("text.txt", "hello, world");

  EXPECT_THAT(error_of(files, "lfs.gguf"), HasSubstr("is a Git LFS pointer"));
  EXPECT_THAT(error_of(files, "model.bin"), HasSubstr("is a PyTorch checkpoint"));
  EXPECT_THAT(error_of(files, "one.safetensors"), HasSubstr("give the folder"));
  EXPECT_THAT(error_of(files, "page.gguf"), HasSubstr("is a web page"));
  EXPECT_THAT(error_of(files, "empty.gguf"), HasSubstr("is empty"));
  EXPECT_THAT(error_of(files, "text.txt"), HasSubstr("neither a GGUF file nor"));
}

TEST(ModelFiles, OpensForMetadataWhatLacksItsWeights) {
  MemoryFileSystem files;
  files.put("m/tokenizer.json", "{}");
  const ModelFiles tokenizer = ModelFiles::open(files, "m", OpenMode::kMetadataOnly).value();
  EXPECT_EQ(tokenizer.config(), nullptr);
  EXPECT_TRUE(tokenizer.tensors().empty());
  EXPECT_TRUE(tokenizer.read_sibling("tokenizer.json").value().has_value());

  files.put("m/config.json", kConfig);
  files.put("m/model-00001-of-00002.safetensors", safetensors_of("a"));
  const ModelFiles partial = ModelFiles::open(files, "m", OpenMode::kMetadataOnly).value();
  EXPECT_NE(partial.config(), nullptr);
  EXPECT_TRUE(partial.tensors().empty());
  EXPECT_THAT(partial.missing(), HasSubstr("m/model-00002-of-00002.safetensors is missing"));

  files.put("m/model-00002-of-00002.safetensors", "damaged");
  const ModelFiles damaged = ModelFiles::open(files, "m", OpenMode::kMetadataOnly).value();
  EXPECT_THAT(damaged.missing(), HasSubstr("m/model-00002-of-00002.safetensors"));
  files.put("m/model-00002-of-00002.safetensors", safetensors_of("b"));
  EXPECT_EQ(ModelFiles::open(files, "m", OpenMode::kMetadataOnly).value().missing(), "");
}

TEST(ModelFiles, SayWhichPartOfASetIsMissing) {
  MemoryFileSystem files;
  files.put(
      "m-00001-of-00002.gguf",
      GgufBuilder().number<uint16_t>("split.no", 0).number<uint16_t>("split.count", 2).build());
  const ModelFiles first =
      ModelFiles::open(files, "m-00001-of-00002.gguf", OpenMode::kMetadataOnly).value();
  EXPECT_THAT(first.missing(), HasSubstr("m-00002-of-00002.gguf is missing"));
}

TEST(ModelFiles, OpensTheSnapshotOfAFolderInTheHubsCache) {
  MemoryFileSystem files;
  const std::string hub = "models--org--name";
  files.put(hub + "/snapshots/aaa/config.json", kConfig);
  files.put(hub + "/snapshots/aaa/model.safetensors", safetensors_of("old"));
  EXPECT_NE(ModelFiles::open(files, hub).value().find("old"), nullptr);

  files.put(hub + "/snapshots/bbb/config.json", kConfig);
  files.put(hub + "/snapshots/bbb/model.safetensors", safetensors_of("new"));
  EXPECT_THAT(error_of(files, hub), HasSubstr("holds 2 snapshots of a model; name one, such as "
                                              "models--org--name/snapshots/aaa"));
  files.put(hub + "/refs/main", "bbb\n");
  EXPECT_NE(ModelFiles::open(files, hub).value().find("new"), nullptr);
}

TEST(ModelFiles, ReportsABrokenDiskForEveryFileItNeeds) {
  for (const char* broken : {"m/config.json", "m/generation_config.json",
                             "m/model.safetensors.index.json", "m/s.safetensors"}) {
    MemoryFileSystem files;
    files.put("m/config.json", kConfig);
    files.put("m/generation_config.json", "{}");
    files.put("m/model.safetensors.index.json", index_of({{"w", "s.safetensors"}}));
    files.put("m/s.safetensors", safetensors_of("w"));
    ASSERT_EQ(error_of(files, "m"), "no error");
    files.break_reads_of(broken);
    const auto model = ModelFiles::open(files, "m");
    ASSERT_FALSE(model.ok()) << broken;
    EXPECT_EQ(model.error().code, ErrorCode::kIo);
    EXPECT_THAT(model.error().message, HasSubstr(broken));
  }
}

TEST(ModelFiles, ReportsDamagedConfigs) {
  for (const char* text : {"", "{", "[]", "\"text\"", "{\"a\":NaN}"}) {
    MemoryFileSystem files;
    files.put("m/config.json", text);
    files.put("m/model.safetensors", safetensors_of("w"));
    EXPECT_THAT(error_of(files, "m"), HasSubstr("m/config.json")) << text;
  }
}

TEST(ModelFiles, ReportsABrokenDiskUnderASibling) {
  MemoryFileSystem files;
  files.put("m/config.json", kConfig);
  files.put("m/model.safetensors", safetensors_of("w"));
  files.put("m/tokenizer.json", "{}");
  files.break_reads_of("m/tokenizer.json");
  const ModelFiles model = ModelFiles::open(files, "m").value();
  EXPECT_EQ(model.read_sibling("tokenizer.json").error().code, ErrorCode::kIo);
  EXPECT_DEATH(static_cast<void>(model.read_sibling("../tokenizer.json").ok()), "without a path");
}

class RealFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "quire-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void put(const std::string& name, const std::string& content) {
    const std::filesystem::path path = root_ / name;
    std::filesystem::create_directories(path.parent_path());
    ASSERT_TRUE(real_file_system().write_atomically(path.string(), content).ok());
  }
  void link(const std::string& name, const std::string& target) {
    std::filesystem::create_directories((root_ / name).parent_path());
    std::filesystem::create_symlink(target, root_ / name);
  }

  std::filesystem::path root_;
};

TEST_F(RealFolder, OfSymlinksLikeAHubSnapshotOpens) {
  put("blobs/c", kConfig);
  put("blobs/w", safetensors_of("w"));
  put("blobs/t", "{}");
  link("snapshots/1/config.json", "../../blobs/c");
  link("snapshots/1/model.safetensors", "../../blobs/w");
  link("snapshots/1/tokenizer.json", "../../blobs/t");

  for (const char* slash : {"", "/"}) {
    const auto model =
        ModelFiles::open(real_file_system(), (root_ / "snapshots/1").string() + slash);
    ASSERT_TRUE(model.ok()) << model.error().message;
    const TensorInfo* w = model->find("w");
    ASSERT_NE(w, nullptr);
    model->release(*w);
    EXPECT_EQ(w->bytes.back(), std::byte{'d'});  // released pages come back from the file
    EXPECT_TRUE(model->read_sibling("tokenizer.json").value().has_value());
  }
}

TEST_F(RealFolder, OfSymlinksToASplitSetOpens) {
  const auto part = [](uint16_t number, const char* tensor) {
    GgufBuilder builder;
    builder.number<uint16_t>("split.no", number).number<uint16_t>("split.count", 2);
    return builder.tensor({tensor, {8}, 0, std::string(32, 't')}).build();
  };
  put("blobs/1", part(0, "a"));
  put("blobs/2", part(1, "b"));
  link("s/m-00001-of-00002.gguf", "../blobs/1");
  link("s/m-00002-of-00002.gguf", "../blobs/2");

  EXPECT_EQ(ModelFiles::open(real_file_system(), (root_ / "s").string()).value().files().size(),
            2u);
}

}  // namespace
}  // namespace quire::formats
