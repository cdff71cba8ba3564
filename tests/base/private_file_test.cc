#include "base/private_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace quire {
namespace {

/// A folder that goes with the test; the current directory lies on a disk where tests are built.
class Folder {
 public:
  Folder() {
    std::string name = "./private_file_test_XXXXXX";
    path_ = ::mkdtemp(name.data()) != nullptr ? name : "";
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::array<std::byte, 4> bytes_of(int value) {
  std::array<std::byte, 4> bytes{};
  bytes.fill(static_cast<std::byte>(value));
  return bytes;
}

#define SKIP_WHERE_REFUSED(file) \
  if (!(file).ok()) GTEST_SKIP() << (file).error().message

TEST(PrivateFile, ReturnsWhatWasWrittenAndHasNoName) {
  const Folder folder;
  const auto file = create_private_file(folder.path());
  SKIP_WHERE_REFUSED(file);
  ASSERT_TRUE((*file)->write(1 << 20, bytes_of(7)).ok());
  std::array<std::byte, 4> read{};
  ASSERT_TRUE((*file)->read(1 << 20, read).ok());
  EXPECT_EQ(read, bytes_of(7));
  ASSERT_TRUE((*file)->read(1000, read).ok());
  EXPECT_EQ(read, bytes_of(0)) << "what was never written is zero";
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(PrivateFile, SaysWhenItEndsBeforeWhatIsRead) {
  const Folder folder;
  const auto file = create_private_file(folder.path());
  SKIP_WHERE_REFUSED(file);
  ASSERT_TRUE((*file)->write(0, bytes_of(1)).ok());
  std::array<std::byte, 5> more{};
  const auto result = (*file)->read(0, more);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kIo);
  EXPECT_NE(result.error().message.find(folder.path()), std::string::npos);
}

TEST(PrivateFile, RefusesAFolderThatEveryoneMayWriteTo) {
  const Folder folder;
  ASSERT_EQ(::chmod(folder.path().c_str(), 0777), 0);
  const auto file = create_private_file(folder.path());
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code, ErrorCode::kUsage);
  EXPECT_NE(file.error().message.find("--spill-dir"), std::string::npos);
}

TEST(PrivateFile, RefusesMemoryThatLooksLikeADisk) {
  std::string name = "/dev/shm/private_file_test_XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) GTEST_SKIP() << "no /dev/shm here";
  const auto file = create_private_file(name);
  std::filesystem::remove(name);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code, ErrorCode::kUsage);
  EXPECT_NE(file.error().message.find("tmpfs"), std::string::npos);
}

TEST(PrivateFile, NamesAFolderThatIsNotThere) {
  const auto file = create_private_file("./no/such/folder");
  ASSERT_FALSE(file.ok());
  EXPECT_NE(file.error().message.find("./no/such/folder"), std::string::npos);
  EXPECT_FALSE(free_disk_bytes("./no/such/folder").ok());
}

TEST(PrivateDirectories, AreForThisUserOnly) {
  const Folder folder;
  ASSERT_TRUE(create_private_directories(folder.path() + "/a/b").ok());
  struct stat info {};
  ASSERT_EQ(::stat((folder.path() + "/a/b").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  EXPECT_TRUE(create_private_directories(folder.path() + "/a/b").ok()) << "it is there already";
}

}  // namespace
}  // namespace quire
