#include "base/new_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

namespace quire {
namespace {

namespace fs = std::filesystem;

/// An empty folder that goes with the test.
class NewFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "quire-new-file-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(std::string_view name) const { return (folder_ / name).string(); }
  void put(std::string_view name, std::string_view content) const {
    std::ofstream(folder_ / name, std::ios::binary) << content;
  }
  std::string content(std::string_view name) const {
    std::ifstream in(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  size_t num_entries() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {}));
  }

  fs::path folder_;
};

Result<void> append(NewFile& file, std::string_view text) {
  return file.append(std::as_bytes(std::span(text)));
}

TEST_F(NewFileTest, AppearsWholeWhenItIsCommitted) {
  const auto file = create_file(path("new"), IfExists::kRefuse).value();
  ASSERT_TRUE(file->reserve(100).ok());
  ASSERT_TRUE(append(*file, "one ").ok());
  EXPECT_FALSE(fs::exists(path("new")));
  ASSERT_TRUE(append(*file, "two").ok());

  ASSERT_TRUE(file->commit().ok());
  EXPECT_EQ(content("new"), "one two");
  EXPECT_EQ(num_entries(), 1u);
}

TEST_F(NewFileTest, LeavesNothingWhenItIsNotCommitted) {
  {
    const auto file = create_file(path("new"), IfExists::kRefuse).value();
    ASSERT_TRUE(append(*file, "half").ok());
  }
  EXPECT_EQ(num_entries(), 0u);
}

TEST_F(NewFileTest, RefusesANameThatIsTaken) {
  put("old", "old");
  const auto file = create_file(path("old"), IfExists::kRefuse);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code, ErrorCode::kUsage);
  EXPECT_NE(file.error().message.find("--force"), std::string::npos);
}

TEST_F(NewFileTest, RefusesANameThatIsTakenWhileItIsWritten) {
  const auto file = create_file(path("new"), IfExists::kRefuse).value();
  ASSERT_TRUE(append(*file, "ours").ok());
  put("new", "theirs");

  const auto committed = file->commit();
  ASSERT_FALSE(committed.ok());
  EXPECT_EQ(content("new"), "theirs");
  EXPECT_EQ(num_entries(), 1u);
}

TEST_F(NewFileTest, ReplacesAnOldFileInOneStep) {
  put("old", "old and long");
  const auto file = create_file(path("old"), IfExists::kReplace).value();
  ASSERT_TRUE(append(*file, "new").ok());
  EXPECT_EQ(content("old"), "old and long");

  ASSERT_TRUE(file->commit().ok());
  EXPECT_EQ(content("old"), "new");
  EXPECT_EQ(num_entries(), 1u);
}

TEST_F(NewFileTest, KeepsTheOldFileWhenTheNewOneIsNotCommitted) {
  put("old", "old");
  {
    const auto file = create_file(path("old"), IfExists::kReplace).value();
    ASSERT_TRUE(append(*file, "new").ok());
  }
  EXPECT_EQ(content("old"), "old");
  EXPECT_EQ(num_entries(), 1u);
}

TEST_F(NewFileTest, RefusesFoldersDevicesAndMissingFolders) {
  EXPECT_EQ(create_file(folder_.string(), IfExists::kReplace).error().code, ErrorCode::kUsage);
  EXPECT_EQ(create_file("/dev/null", IfExists::kReplace).error().code, ErrorCode::kUsage);
  EXPECT_EQ(create_file(path("no/such/folder"), IfExists::kRefuse).error().code, ErrorCode::kIo);
}

/// Files of this process may have at most so many bytes: what a full disk does, without one.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &saved_);
    const rlimit limit{bytes, saved_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &saved_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit saved_{};
  void (*handler_)(int);
};

TEST_F(NewFileTest, NoticesBeforeTheWorkThatThereIsNoRoom) {
  const FileSizeLimit limit(1000);
  const auto file = create_file(path("new"), IfExists::kRefuse).value();
  const auto reserved = file->reserve(2000);
  ASSERT_FALSE(reserved.ok());
  EXPECT_EQ(reserved.error().code, ErrorCode::kIo);
}

TEST_F(NewFileTest, LeavesNothingWhenTheDiskIsFull) {
  const FileSizeLimit limit(1000);
  {
    const auto file = create_file(path("new"), IfExists::kRefuse).value();
    ASSERT_TRUE(append(*file, std::string(900, 'x')).ok());
    const auto appended = append(*file, std::string(900, 'x'));
    ASSERT_FALSE(appended.ok());
    EXPECT_EQ(appended.error().code, ErrorCode::kIo);
  }
  EXPECT_EQ(num_entries(), 0u);
}

TEST_F(NewFileTest, KnowsOneFileByTwoNames) {
  put("file", "x");
  put("other", "x");
  fs::create_symlink("file", folder_ / "link");
  EXPECT_TRUE(is_same_file(path("file"), path("file")));
  EXPECT_TRUE(is_same_file(path("file"), path("link")));
  EXPECT_FALSE(is_same_file(path("file"), path("other")));
  EXPECT_FALSE(is_same_file(path("file"), path("missing")));
  EXPECT_FALSE(is_same_file(path("missing"), path("missing")));
}

}  // namespace
}  // namespace quire
