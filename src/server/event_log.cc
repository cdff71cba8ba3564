#include "server/event_log.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <ctime>

namespace quire::server {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"error", "warn", "info", "debug"};

bool is_plain(std::string_view value) {
  if (value.empty()) return false;
  for (const char c : value) {
    if (c <= ' ' || c == '"' || c == '=' || c == '\\' || c >= 127) return false;
  }
  return true;
}

std::string quoted(std::string_view value) {
  std::string out = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < ' ' || c == 127) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace

std::optional<LogLevel> log_level_from_name(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<LogLevel>(i);
  }
  return std::nullopt;
}

std::string utc_timestamp() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  const std::time_t seconds = ms / 1000;
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900,
                     utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, ms % 1000);
}

void EventLog::write(LogLevel level, std::string_view event, std::initializer_list<Field> fields) {
  if (level > level_) return;
  std::string line =
      fmt::format("{} {} {}", utc_timestamp(), kNames[static_cast<size_t>(level)], event);
  for (const auto& [name, value] : fields) {
    line += fmt::format(" {}={}", name, is_plain(value) ? value : quoted(value));
  }
  line += '\n';
  const std::scoped_lock lock(mutex_);
  std::fwrite(line.data(), 1, line.size(), stream_);
  std::fflush(stream_);
}

}  // namespace quire::server
