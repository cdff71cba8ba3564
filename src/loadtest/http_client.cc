#include "loadtest/http_client.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "formats/printable.h"

namespace quire::loadtest {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostHeaderBytes = 64 << 10;
constexpr size_t kMostLineBytes = 8 << 10;
constexpr int kPollMs = 100;  // so that a stop is noticed

Error io(std::string message) {
  return {ErrorCode::kIo, std::move(message)};
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return out;
}

/// A connected socket. Move-only; closes itself.
class Connection {
 public:
  static Result<Connection> open(const Address& address, const Patience& patience) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const std::string port = std::to_string(address.port);
    const int status = ::getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found);
    if (status != 0) {
      return io(fmt::format("{} cannot be resolved: {}", formats::printable(address.host),
                            ::gai_strerror(status)));
    }
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
    Error last = io("no address");
    for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
      Connection connection(
          ::socket(one->ai_family, one->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), patience);
      if (connection.fd_ < 0) return io(fmt::format("no socket: {}", std::strerror(errno)));
      auto connected = connection.connect(*one);
      if (connected.ok()) return connection;
      last = std::move(connected).error();
      if (last.code == ErrorCode::kInterrupted) return last;
    }
    last.message =
        fmt::format("{}:{} cannot be reached: {}", address.host, address.port, last.message);
    return last;
  }

  Connection(Connection&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), patience_(other.patience_) {}
  Connection& operator=(Connection&&) = delete;
  ~Connection() {
    if (fd_ >= 0) ::close(fd_);
  }

  Result<void> send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent > 0) {
        bytes.remove_prefix(static_cast<size_t>(sent));
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        QUIRE_TRY_VOID(wait(POLLOUT));
      } else if (errno != EINTR) {
        return io(fmt::format("the connection broke while sending: {}", std::strerror(errno)));
      }
    }
    return {};
  }

  /// Appends what has come; 0 at the end.
  Result<size_t> receive(std::string& buffer) {
    char bytes[16384];
    while (true) {
      const ssize_t got = ::recv(fd_, bytes, sizeof(bytes), 0);
      if (got >= 0) {
        buffer.append(bytes, static_cast<size_t>(got));
        return static_cast<size_t>(got);
      }
      if (errno == EAGAIN || errno == EWOULDBLOCK) {
        QUIRE_TRY_VOID(wait(POLLIN));
      } else if (errno != EINTR) {
        return io(fmt::format("the connection broke: {}", std::strerror(errno)));
      }
    }
  }

 private:
  Connection(int fd, const Patience& patience) : fd_(fd), patience_(patience) {}

  Result<void> connect(const addrinfo& to) {
    const int on = 1;
    (void)::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (::connect(fd_, to.ai_addr, to.ai_addrlen) == 0) return {};
    if (errno != EINPROGRESS) return io(std::strerror(errno));
    QUIRE_TRY_VOID(wait(POLLOUT));
    int error = 0;
    socklen_t size = sizeof(error);
    ::getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size);
    return error == 0 ? Result<void>() : io(std::strerror(error));
  }

  Result<void> wait(short events) {
    while (true) {
      if (patience_.stopped != nullptr && patience_.stopped()) {
        return Error{ErrorCode::kInterrupted, "stopped"};
      }
      if (Clock::now() >= patience_.deadline) return io("no answer in time");
      pollfd waiting{.fd = fd_, .events = events, .revents = 0};
      if (::poll(&waiting, 1, kPollMs) > 0) return {};
    }
  }

  int fd_;
  Patience patience_;
};

/// How a body ends.
struct Framing {
  bool chunked = false;
  std::optional<uint64_t> length;  // neither: with the connection
};

class ReplyReader {
 public:
  ReplyReader(Connection& connection, const std::function<bool(std::string_view)>& on_body)
      : connection_(connection), on_body_(on_body) {}

  Result<int32_t> read() {
    int32_t status = 100;
    while (status >= 100 && status < 200) {
      QUIRE_TRY(status, read_head());
    }
    if (framing_.chunked) {
      QUIRE_TRY_VOID(read_chunks());
    } else if (framing_.length) {
      QUIRE_TRY_VOID(pass_on(*framing_.length));
    } else {
      QUIRE_TRY_VOID(read_to_end());
    }
    return status;
  }

 private:
  /// The next line without its end; never longer than `most`.
  Result<std::string> line(size_t most) {
    while (true) {
      const size_t end = buffer_.find('\n');
      if (end != std::string::npos) {
        std::string found = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        if (found.ends_with('\r')) found.pop_back();
        return found;
      }
      if (buffer_.size() > most) return io("the reply is no HTTP: a line never ends");
      QUIRE_TRY(const size_t got, connection_.receive(buffer_));
      if (got == 0) return io("the server closed the connection before it answered");
    }
  }

  Result<int32_t> read_head() {
    QUIRE_TRY(const std::string first, line(kMostLineBytes));
    int32_t status = 0;
    const bool is_http = first.starts_with("HTTP/1.") && first.size() >= 12;
    if (is_http) std::from_chars(first.data() + 9, first.data() + 12, status);
    if (status < 100 || status > 599) return io("the reply is no HTTP");
    framing_ = {};
    for (size_t bytes = 0;;) {
      QUIRE_TRY(const std::string header, line(kMostLineBytes));
      if (header.empty()) return status;
      bytes += header.size();
      if (bytes > kMostHeaderBytes) return io("the reply's headers never end");
      QUIRE_TRY_VOID(take_header(header));
    }
  }

  Result<void> take_header(std::string_view header) {
    const size_t colon = header.find(':');
    if (colon == std::string_view::npos) return io("the reply has a header without a colon");
    const std::string name = lower(header.substr(0, colon));
    std::string value = lower(header.substr(colon + 1));
    value.erase(0, value.find_first_not_of(" \t"));
    if (name == "transfer-encoding") framing_.chunked = value.find("chunked") != value.npos;
    if (name != "content-length") return {};
    uint64_t length = 0;
    const auto [end, failure] = std::from_chars(value.data(), value.data() + value.size(), length);
    if (failure != std::errc() || end == value.data()) return io("the reply's length is no number");
    framing_.length = length;
    return {};
  }

  Result<void> read_chunks() {
    while (true) {
      QUIRE_TRY(const std::string size_line, line(kMostLineBytes));
      uint64_t size = 0;
      const auto [end, failure] =
          std::from_chars(size_line.data(), size_line.data() + size_line.size(), size, 16);
      if (failure != std::errc() || end == size_line.data()) {
        return io("a chunk of the reply has no size");
      }
      if (size == 0) return {};
      QUIRE_TRY_VOID(pass_on(size));
      QUIRE_TRY(const std::string rest, line(kMostLineBytes));
      if (!rest.empty()) return io("a chunk of the reply is longer than it says");
    }
  }

  Result<void> pass_on(uint64_t bytes) {
    while (bytes > 0) {
      if (buffer_.empty()) {
        QUIRE_TRY(const size_t got, connection_.receive(buffer_));
        if (got == 0) return io("the reply was cut off");
      }
      const size_t part = static_cast<size_t>(std::min<uint64_t>(bytes, buffer_.size()));
      QUIRE_TRY_VOID(hand_over(std::string_view(buffer_).substr(0, part)));
      buffer_.erase(0, part);
      bytes -= part;
    }
    return {};
  }

  Result<void> read_to_end() {
    while (true) {
      if (!buffer_.empty()) {
        QUIRE_TRY_VOID(hand_over(buffer_));
      }
      buffer_.clear();
      QUIRE_TRY(const size_t got, connection_.receive(buffer_));
      if (got == 0) return {};
    }
  }

  Result<void> hand_over(std::string_view bytes) {
    if (on_body_(bytes)) return {};
    return Error{ErrorCode::kInterrupted, "stopped"};
  }

  Connection& connection_;
  const std::function<bool(std::string_view)>& on_body_;
  std::string buffer_;
  Framing framing_;
};

std::string written(const Address& address, const HttpRequest& request) {
  std::string text =
      fmt::format("{} {}{} HTTP/1.1\r\nHost: {}:{}\r\nConnection: close\r\n", request.method,
                  address.path, request.path, address.host, address.port);
  for (const auto& [name, value] : request.headers) text += name + ": " + value + "\r\n";
  if (!request.body.empty()) text += fmt::format("Content-Length: {}\r\n", request.body.size());
  return text + "\r\n" + request.body;
}

}  // namespace

Result<Address> parse_address(std::string_view url) {
  const auto bad = [&](std::string_view why) {
    return Error{ErrorCode::kUsage,
                 fmt::format("{} is no address of a server: {}", formats::printable(url), why)};
  };
  if (url.starts_with("https://")) {
    return bad("only http:// is spoken; put a proxy before a server that wants https");
  }
  if (!url.starts_with("http://")) return bad("write http://HOST:PORT");
  std::string_view rest = url.substr(7);
  Address address;
  const size_t slash = rest.find('/');
  if (slash != std::string_view::npos) address.path = rest.substr(slash);
  while (address.path.ends_with('/')) address.path.pop_back();
  // Clients are often given the address up to /v1, which every path here begins with.
  if (address.path.ends_with("/v1")) address.path.resize(address.path.size() - 3);
  rest = rest.substr(0, slash);
  const bool bracketed = rest.starts_with('[');
  const size_t host_end = bracketed ? rest.find(']') : rest.find(':');
  if (bracketed && host_end == std::string_view::npos) return bad("a [ is never closed");
  address.host = rest.substr(bracketed ? 1 : 0, bracketed ? host_end - 1 : host_end);
  std::string_view port =
      host_end == std::string_view::npos ? std::string_view() : rest.substr(host_end);
  if (bracketed) port.remove_prefix(1);
  const bool clean = std::all_of(url.begin(), url.end(), [](char c) { return c > ' ' && c < 127; });
  if (address.host.empty() || !clean) return bad("write http://HOST:PORT");
  if (port.empty()) return address;
  const auto [end, failure] =
      std::from_chars(port.data() + 1, port.data() + port.size(), address.port);
  const bool whole = failure == std::errc() && end == port.data() + port.size() && port[0] == ':';
  if (!whole || address.port == 0) return bad("its port is no number from 1 to 65535");
  return address;
}

bool is_loopback(const Address& address) {
  in_addr v4{};
  if (::inet_pton(AF_INET, address.host.c_str(), &v4) == 1) {
    return (ntohl(v4.s_addr) >> 24) == 127;
  }
  return address.host == "localhost" || address.host == "::1";
}

Result<int32_t> exchange(const Address& address, const HttpRequest& request,
                         const Patience& patience,
                         const std::function<bool(std::string_view)>& on_body) {
  QUIRE_TRY(Connection connection, Connection::open(address, patience));
  QUIRE_TRY_VOID(connection.send(written(address, request)));
  return ReplyReader(connection, on_body).read();
}

}  // namespace quire::loadtest
