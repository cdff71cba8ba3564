// raw_client.h: a TCP connection on which tests say exactly what bytes go out, and see what comes.
//
// Every read ends after a time limit, so that a server that hangs fails a test instead of hanging
// it. Use from one thread.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/json.h"

namespace quire::server {

struct RawResponse {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string body;                                          // chunks joined

  /// "" if there is none.
  std::string header(std::string_view name) const;
  /// The body as the one JSON document it must be.
  formats::Json json() const;
  /// What follows "data: " in each event of a stream.
  std::vector<std::string> events() const;
};

class RawClient {
 public:
  explicit RawClient(uint16_t port, int receive_buffer_bytes = 0);
  ~RawClient();
  RawClient(RawClient&& other) noexcept;
  RawClient(const RawClient&) = delete;

  void send(std::string_view bytes);
  /// Reads one response; nothing if the connection ends or time runs out before it is complete.
  std::optional<RawResponse> read_response();
  /// Waits until `text` has arrived, and takes everything up to it.
  bool read_until(std::string_view text) { return take_until(text).has_value(); }
  std::optional<std::string> take_until(std::string_view text);
  /// Whether the other side has closed, waiting for it.
  bool is_closed();
  void close();

  /// A request on this connection.
  RawResponse request(std::string_view method, std::string_view path, std::string_view body = "",
                      std::string_view headers = "");
  RawResponse post(std::string_view path, const formats::Json& body);
  RawResponse get(std::string_view path) { return request("GET", path); }

 private:
  bool receive();

  int socket_ = -1;
  std::string buffer_;
  bool ended_ = false;
};

/// A JSON text as a value; the test fails if it is none.
formats::Json json(std::string_view text);
/// What `path` ("error.code", "choices.0.message") leads to, null if nothing.
const formats::Json& at(const formats::Json& json, std::string_view path);
std::string text_at(const formats::Json& json, std::string_view path);

}  // namespace quire::server
