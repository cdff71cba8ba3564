// http.h: requests and replies as routes see them, whatever library carries them.
//
// A handler is given an HttpExchange and answers it once: with a whole response, or by beginning a
// stream, writing to it and ending it. It may answer later and from any thread. All callbacks of an
// exchange run one at a time on the server's I/O thread, and so does what was posted to it.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quire::server {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;   // "GET"
  std::string path;     // of the target, as sent: not decoded, without the query
  std::string query;    // after '?'
  HttpHeaders headers;  // names in lower case
  std::string body;

  /// The first header of that name (lower case), or nullptr.
  const std::string* header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  HttpHeaders headers = {};
};

class HttpExchange {
 public:
  virtual ~HttpExchange() = default;

  virtual const HttpRequest& request() const = 0;

  /// Goes with the head of the answer, whichever it will be. On the I/O thread, or before the
  /// answer could begin.
  virtual void add_header(std::string name, std::string value) = 0;

  /// The whole answer. Ignored if the client is gone.
  virtual void respond(HttpResponse response) = 0;

  /// Sends the head of a streamed answer; `heartbeat`, unless empty, is written whenever nothing
  /// else was for some seconds, so that a reader that died is noticed.
  virtual void begin_stream(std::string_view content_type, std::string_view heartbeat) = 0;
  /// Adds to the stream. Returns at once: a reader who leaves too much unread loses the stream.
  virtual void write(std::string bytes) = 0;
  virtual void end_stream() = 0;

  /// Called on the I/O thread if the client goes away, or is cut off, before the answer ended. Set
  /// it on the I/O thread or before the answer could begin.
  virtual void on_close(std::function<void()> callback) = 0;

  /// Runs `work` on the I/O thread, after all that was posted before.
  virtual void post(std::function<void()> work) = 0;
  /// Runs `work` where handlers run.
  virtual void post_to_worker(std::function<void()> work) = 0;
};

/// Decodes %XX; '+' stays. Nothing else is special. Ill-formed escapes stay as they are.
std::string percent_decoded(std::string_view text);

}  // namespace quire::server
