#include "cli/home.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <ctime>

#include "base/private_file.h"

namespace quire::cli {
namespace {

constexpr const char* kConversationsFile = "/conversations.db";
constexpr const char* kServerFile = "/server-conversations.db";

}  // namespace

Result<std::string> private_home(const Environment& env, Output& output) {
  QUIRE_TRY_VOID(create_private_directories(env.home));
  struct stat info {};
  const bool known = ::stat(env.home.c_str(), &info) == 0;
  const bool open_to_others = known && (info.st_mode & 0077) != 0;
  if (open_to_others && info.st_uid == ::geteuid() && ::chmod(env.home.c_str(), 0700) == 0) {
    output.detail(fmt::format("{} was open to others; it is yours alone now", env.home));
  }
  return env.home;
}

std::string conversations_path(const Environment& env) {
  return env.home + kConversationsFile;
}

std::string server_conversations_path(const Environment& env) {
  return env.home + kServerFile;
}

Result<std::unique_ptr<context::ConversationStore>> open_conversations(const Environment& env,
                                                                       Output& output) {
  QUIRE_TRY(const std::string home, private_home(env, output));
  return context::ConversationStore::open(home + kConversationsFile);
}

std::string shown_time(int64_t ms) {
  const auto seconds = static_cast<std::time_t>(ms / 1000);
  std::tm parts{};
  if (::localtime_r(&seconds, &parts) == nullptr) return "?";
  std::array<char, 32> text{};
  const size_t length = std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M", &parts);
  return std::string(text.data(), length);
}

}  // namespace quire::cli
