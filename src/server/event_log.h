// event_log.h: what happens in a server, a line each, for machines and people.
//
//   2026-01-31T12:00:00.123Z info answer id=chatcmpl-1 route=/v1/chat/completions tokens=12
//
// Values are quoted where they need it. Prompts, answers, keys and salts have no business here.
// Any thread.
#pragma once
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace quire::server {

enum class LogLevel : uint8_t { kError, kWarn, kInfo, kDebug };
/// "error", "warn", "info", "debug".
std::optional<LogLevel> log_level_from_name(std::string_view name);

class EventLog {
 public:
  using Field = std::pair<std::string_view, std::string>;

  EventLog(std::FILE* stream, LogLevel level) : stream_(stream), level_(level) {}

  void write(LogLevel level, std::string_view event, std::initializer_list<Field> fields);

 private:
  std::FILE* const stream_;
  const LogLevel level_;
  std::mutex mutex_;  // one line at a time
};

/// "2026-01-31T12:00:00.123Z".
std::string utc_timestamp();

}  // namespace quire::server
