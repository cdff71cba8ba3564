// sse.h: the events of a text/event-stream, however its bytes are cut.
//
// Only what OpenAI-compatible servers send: the data of each event; comments and other fields are
// skipped. // HTML Standard, 9.2.6
// A line of more than 16 MiB ends the stream. Use one from one thread.
#pragma once
#include <functional>
#include <string>
#include <string_view>

namespace quire::loadtest {

class SseReader {
 public:
  explicit SseReader(std::function<void(std::string_view data)> on_event)
      : on_event_(std::move(on_event)) {}

  /// False when a line is too long to be one.
  bool push(std::string_view bytes);

 private:
  void take_line(std::string_view line);

  std::function<void(std::string_view)> on_event_;
  std::string line_;
  std::string data_;
  bool has_data_ = false;
};

}  // namespace quire::loadtest
