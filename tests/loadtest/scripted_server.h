// scripted_server.h: a small HTTP server that answers each connection with what a test says.
//
// Listens on a free port of this machine. Each connection gets one answer and is closed.
#pragma once
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace quire::loadtest {

class ScriptedServer {
 public:
  /// Gets the whole request; its pieces are sent one after the other.
  using Script = std::function<std::vector<std::string>(const std::string& request)>;

  explicit ScriptedServer(Script script) : script_(std::move(script)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* plain = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof(address);
    EXPECT_EQ(::bind(listener_, plain, size), 0);
    EXPECT_EQ(::listen(listener_, 64), 0);
    EXPECT_EQ(::getsockname(listener_, plain, &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::jthread([this] { accept_all(); });
  }
  ScriptedServer(const ScriptedServer&) = delete;
  ~ScriptedServer() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_ = {};
    ::close(listener_);
  }

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  std::vector<std::string> requests() {
    const std::scoped_lock lock(mutex_);
    return requests_;
  }

 private:
  void accept_all() {
    std::vector<std::jthread> answering;
    while (true) {
      const int connection = ::accept(listener_, nullptr, nullptr);
      if (connection < 0) return;
      answering.emplace_back([this, connection] { answer(connection); });
    }
  }

  void answer(int connection) {
    const std::string request = read_request(connection);
    {
      const std::scoped_lock lock(mutex_);
      requests_.push_back(request);
    }
    for (const std::string& piece : script_(request)) {
      if (::send(connection, piece.data(), piece.size(), MSG_NOSIGNAL) < 0) break;
    }
    ::shutdown(connection, SHUT_WR);
    char rest[256];
    while (::recv(connection, rest, sizeof(rest), 0) > 0) {
    }
    ::close(connection);
  }

  static std::string read_request(int connection) {
    std::string request;
    char bytes[4096];
    while (true) {
      const size_t head = request.find("\r\n\r\n");
      if (head != std::string::npos) {
        const size_t at = request.find("Content-Length: ");
        const size_t body = at == std::string::npos ? 0 : std::stoul(request.substr(at + 16));
        if (request.size() >= head + 4 + body) return request;
      }
      const ssize_t got = ::recv(connection, bytes, sizeof(bytes), 0);
      if (got <= 0) return request;
      request.append(bytes, static_cast<size_t>(got));
    }
  }

  Script script_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::mutex mutex_;  // of requests_
  std::vector<std::string> requests_;
  std::jthread thread_;
};

}  // namespace quire::loadtest
