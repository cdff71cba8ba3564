// http_client.h: one HTTP/1.1 request over a connection of its own, its reply read as it comes.
//
// Plain sockets: a load generator must know when each byte arrived, and needs nothing else of HTTP.
// Replies are untrusted: headers and lines are bounded, and a reply that is no HTTP is an error.
// Every wait ends at a deadline or when the caller wants to stop. Functions without shared state:
// any number of threads.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace quire::loadtest {

/// "http://HOST[:PORT][/PATH]"; IPv6 in brackets.
struct Address {
  std::string host;
  uint16_t port = 80;
  std::string path;  // without a slash at its end
};
Result<Address> parse_address(std::string_view url);

/// Whether the name means this machine: localhost, 127.0.0.0/8, ::1.
bool is_loopback(const Address& address);

struct HttpRequest {
  std::string method = "GET";
  std::string path;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
};

/// When to give up.
struct Patience {
  std::chrono::steady_clock::time_point deadline;
  bool (*stopped)() = nullptr;  // the caller wants to stop; null: never
};

/// The status. `on_body` sees the body as it arrives; false ends the exchange. kIo says what went
/// wrong; kInterrupted that the caller stopped.
Result<int32_t> exchange(const Address& address, const HttpRequest& request,
                         const Patience& patience,
                         const std::function<bool(std::string_view)>& on_body);

}  // namespace quire::loadtest
