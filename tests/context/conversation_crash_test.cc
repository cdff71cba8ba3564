// Conversations when the process, the disk or the file fails.
#include <gmock/gmock.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <random>

#include "context/conversation_store.h"
#include "context/scratch_folder.h"

namespace quire::context {
namespace {

using formats::Json;
using ::testing::HasSubstr;

NewMessage numbered(int64_t number) {
  return {.role = "user",
          .content = "message " + std::to_string(number),
          .fields = {},
          .tokens = {},
          .model = ""};
}

/// Appends numbered messages and says each number on `pipe` once the store has acknowledged it.
[[noreturn]] void write_for_ever(const std::string& path, int pipe, int32_t number) {
  auto store = ConversationStore::open(path);
  if (!store.ok()) ::_exit(1);
  const auto info = (*store)->find(kLocalOwner, "talk").value();
  std::optional<MessageId> head = info->head;
  for (;; ++number) {
    auto ids = (*store)->append(info->id, head, std::array{numbered(number)});
    if (!ids.ok()) ::_exit(2);
    head = ids->front();
    if (::write(pipe, &number, sizeof number) != sizeof number) ::_exit(3);
  }
}

/// Kills a writer after `most` acknowledgements; returns the last number that it acknowledged.
int32_t kill_a_writer(const std::string& path, int32_t next, int32_t most) {
  std::array<int, 2> pipe{};
  EXPECT_EQ(::pipe(pipe.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) write_for_ever(path, pipe[1], next);
  ::close(pipe[1]);
  int32_t acknowledged = next - 1;
  for (int32_t i = 0; i < most; ++i) {
    if (::read(pipe[0], &acknowledged, sizeof acknowledged) <= 0) break;
  }
  ::kill(child, SIGKILL);
  // What it had acknowledged before the signal arrived counts too.
  while (::read(pipe[0], &acknowledged, sizeof acknowledged) > 0) {
  }
  ::close(pipe[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status)) << "the writer failed with " << WEXITSTATUS(status);
  return acknowledged;
}

TEST(ConversationCrash, EveryAcknowledgedMessageSurvivesKillsDuringAThousandWrites) {
  const ScratchFolder folder(ScratchFolder::parent_in_memory());
  const std::string path = folder.file("conversations.db");
  ConversationStore::open(path).value()->create(kLocalOwner, "talk", Json(Json::Object{})).value();
  std::mt19937 random(1);
  int32_t written = 0;
  while (written < 1000) {
    const int32_t last = kill_a_writer(path, written, static_cast<int32_t>(random() % 90));
    const auto store = ConversationStore::open(path).value();
    const auto info = store->find(kLocalOwner, "talk").value();
    const auto messages = store->path(info->id, info->head).value();
    // One more may be there: written, but not acknowledged in time.
    ASSERT_GE(static_cast<int32_t>(messages.size()), last + 1);
    ASSERT_LE(static_cast<int32_t>(messages.size()), last + 2);
    written = static_cast<int32_t>(messages.size());
    for (int32_t i = 0; i < written; ++i) {
      ASSERT_EQ(messages[static_cast<size_t>(i)].message.content, numbered(i).content);
    }
  }
  const auto store = ConversationStore::open(path).value();
  EXPECT_EQ(store->search(kLocalOwner, "message", 10000)->size(), static_cast<size_t>(written));
}

/// The exit code of a child that runs `body`.
template <class Body>
int in_child(const Body& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// No file of this process may grow beyond `bytes`.
void limit_file_size(rlim_t bytes) {
  ::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{bytes, bytes};
  ::setrlimit(RLIMIT_FSIZE, &limit);
}

constexpr int kNoRefusal = 200;
constexpr int kOtherSentence = 201;
constexpr int kCannotMount = 202;

/// Appends large messages until one is refused, which must be said with `words`; returns how many
/// were acknowledged.
int fill(const std::string& path, std::string_view words) {
  auto store = ConversationStore::open(path).value();
  const auto info = store->create(kLocalOwner, "talk", Json(Json::Object{})).value();
  NewMessage large = numbered(0);
  large.content.append(50'000, 'x');
  std::optional<MessageId> head;
  for (int acknowledged = 0; acknowledged < 100; ++acknowledged) {
    auto ids = store->append(info.id, head, std::array{large});
    if (!ids.ok())
      return ids.error().message.find(words) == std::string::npos ? kOtherSentence : acknowledged;
    head = ids->front();
  }
  return kNoRefusal;
}

/// Whether the store at `path` holds the messages that fill() was told were stored, and no other.
void expect_holds(const std::string& path, int acknowledged) {
  auto store = ConversationStore::open(path).value();
  const auto info = store->find(kLocalOwner, "talk").value();
  EXPECT_EQ(info->messages, acknowledged);
  EXPECT_TRUE(store->append(info->id, info->head, std::array{numbered(1)}).ok());
}

TEST(ConversationCrash, AFileThatMayNotGrowIsOneSentenceAndLosesNothing) {
  const ScratchFolder folder;
  const std::string path = folder.file("conversations.db");
  const int acknowledged = in_child([&path] {
    limit_file_size(1 << 20);
    return fill(path, "does not let");
  });
  ASSERT_GT(acknowledged, 0);
  ASSERT_LT(acknowledged, 100);
  expect_holds(path, acknowledged);
}

/// A disk of one megabyte that only this process sees.
bool mount_small_disk(const std::string& folder) {
  const std::string user = std::to_string(::getuid());
  const std::string group = std::to_string(::getgid());
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  write_file("/proc/self/setgroups", "deny");
  write_file("/proc/self/uid_map", "0 " + user + " 1");
  write_file("/proc/self/gid_map", "0 " + group + " 1");
  return ::mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=1m") == 0;
}

TEST(ConversationCrash, AFullDiskIsOneSentenceAndLosesNothing) {
  const ScratchFolder folder;
  const std::string disk = folder.file("disk");
  std::filesystem::create_directory(disk);
  const int code = in_child([&disk] {
    if (!mount_small_disk(disk)) return kCannotMount;
    const std::string path = disk + "/conversations.db";
    const int acknowledged = fill(path, "the disk is full");
    auto store = ConversationStore::open(path);
    if (!store.ok()) return kOtherSentence;
    return (*store)->find(kLocalOwner, "talk").value()->messages == acknowledged ? 1 : 0;
  });
  if (code == kCannotMount) GTEST_SKIP() << "this system does not let a test mount a small disk";
  EXPECT_EQ(code, 1);
}

TEST(ConversationCrash, ProcessesThatStartAtOnceMakeOneStore) {
  const ScratchFolder folder;
  const std::string path = folder.file("conversations.db");
  constexpr int kProcesses = 8;
  std::array<pid_t, kProcesses> children{};
  for (int i = 0; i < kProcesses; ++i) {
    children[static_cast<size_t>(i)] = ::fork();
    if (children[static_cast<size_t>(i)] != 0) continue;
    auto store = ConversationStore::open(path);
    if (!store.ok()) ::_exit(1);
    ::_exit((*store)->create(kLocalOwner, std::to_string(i), Json(Json::Object{})).ok() ? 0 : 2);
  }
  for (const pid_t child : children) {
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(ConversationStore::open(path).value()->list(kLocalOwner)->size(), 8u);
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    EXPECT_TRUE(entry.path().filename().string().starts_with("conversations.db")) << entry.path();
    EXPECT_EQ(entry.path().filename().string().size() <= std::string("conversations.db-wal").size(),
              true)
        << "a file that was not published: " << entry.path();
  }
}

TEST(ConversationCrash, NothingIsLeftOfAStoreThatCannotBeMade) {
  const ScratchFolder folder;
  const std::string path = folder.file("conversations.db");
  const int code = in_child([&path] {
    limit_file_size(8192);
    return ConversationStore::open(path).ok() ? 1 : 0;
  });
  EXPECT_EQ(code, 0);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  const auto nowhere = ConversationStore::open(folder.file("absent/conversations.db"));
  EXPECT_EQ(nowhere.error().code, ErrorCode::kIo);
}

std::string refusal(const std::string& path) {
  const std::string before = content_of(path);
  const auto store = ConversationStore::open(path);
  EXPECT_FALSE(store.ok());
  EXPECT_EQ(content_of(path), before) << "it was left as it is";
  return store.ok() ? "" : store.error().message;
}

TEST(ConversationCrash, LeavesAForeignFileAlone) {
  const ScratchFolder folder;
  const std::string path = folder.file("conversations.db");
  for (const std::string& content :
       {std::string("my shopping list"), std::string(), std::string(4096, '\0')}) {
    write_file(path, content);
    EXPECT_THAT(refusal(path), HasSubstr("is no database of Quire's conversations"));
  }
}

TEST(ConversationCrash, LeavesADatabaseOfAnotherVersionAlone) {
  const ScratchFolder folder;
  const std::string path = folder.file("conversations.db");
  ConversationStore::open(path).value().reset();
  std::string bytes = content_of(path);
  bytes[63] = 9;  // the last byte of user_version
  write_file(path, bytes);
  EXPECT_THAT(refusal(path), HasSubstr("version 9"));
  bytes[68] = 0;  // the first of application_id
  write_file(path, bytes);
  EXPECT_THAT(refusal(path), HasSubstr("is no database of Quire's conversations"));
}

TEST(ConversationCrash, LeavesADamagedDatabaseAlone) {
  const ScratchFolder folder;
  const std::string path = folder.file("conversations.db");
  {
    auto store = ConversationStore::open(path).value();
    const auto info = store->create(kLocalOwner, "talk", Json(Json::Object{})).value();
    std::vector<NewMessage> messages;
    for (int i = 0; i < 200; ++i) messages.push_back(numbered(i));
    store->append(info.id, std::nullopt, messages).value();
  }
  const std::string whole = content_of(path);
  std::string torn = whole.substr(0, whole.size() / 2);
  write_file(path, torn);
  EXPECT_THAT(refusal(path), HasSubstr("is damaged"));
  std::string scratched = whole;
  for (size_t at = 4096; at + 64 < scratched.size(); at += 4096)
    scratched.replace(at, 64, 64, '\xA5');
  write_file(path, scratched);
  EXPECT_THAT(refusal(path), HasSubstr("is damaged"));
}

}  // namespace
}  // namespace quire::context
