#include "server/raw_client.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>

namespace quire::server {
namespace {

constexpr int kTimeLimitMs = 20'000;

std::string lower(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

/// Joins the chunks at the start of `bytes`; nothing while the last one is missing.
std::optional<std::string> joined_chunks(std::string_view bytes, size_t& consumed) {
  std::string body;
  size_t at = 0;
  for (;;) {
    const size_t line = bytes.find("\r\n", at);
    if (line == std::string_view::npos) return std::nullopt;
    size_t length = 0;
    std::from_chars(bytes.data() + at, bytes.data() + line, length, 16);
    at = line + 2;
    if (bytes.size() < at + length + 2) return std::nullopt;
    body += bytes.substr(at, length);
    at += length + 2;
    if (length == 0) break;
  }
  consumed = at;
  return body;
}

}  // namespace

std::string RawResponse::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return "";
}

formats::Json RawResponse::json() const {
  return server::json(body);
}

std::vector<std::string> RawResponse::events() const {
  std::vector<std::string> events;
  std::string_view rest = body;
  while (!rest.empty()) {
    const size_t end = rest.find("\n\n");
    const std::string_view event = rest.substr(0, end);
    constexpr std::string_view kData = "data: ";
    const size_t data = event.find(kData);
    if (data != std::string_view::npos) events.emplace_back(event.substr(data + kData.size()));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 2);
  }
  return events;
}

RawClient::RawClient(uint16_t port, int receive_buffer_bytes) {
  socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
  if (receive_buffer_bytes > 0) {
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes,
                 sizeof(receive_buffer_bytes));
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int connected =
      ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  EXPECT_EQ(connected, 0) << "cannot connect to port " << port;
}

RawClient::RawClient(RawClient&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)),
      buffer_(std::move(other.buffer_)),
      ended_(other.ended_) {}

RawClient::~RawClient() {
  close();
}

void RawClient::close() {
  if (socket_ >= 0) ::close(std::exchange(socket_, -1));
}

void RawClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;  // what was answered, if anything, is still to be read
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
}

bool RawClient::receive() {
  if (ended_) return false;
  pollfd ready{.fd = socket_, .events = POLLIN, .revents = 0};
  if (::poll(&ready, 1, kTimeLimitMs) <= 0) return false;
  char bytes[65536];
  const ssize_t got = ::recv(socket_, bytes, sizeof(bytes), 0);
  if (got <= 0) {
    ended_ = true;
    return false;
  }
  buffer_.append(bytes, static_cast<size_t>(got));
  return true;
}

std::optional<RawResponse> RawClient::read_response() {
  size_t head = 0;
  while ((head = buffer_.find("\r\n\r\n")) == std::string::npos) {
    if (!receive()) return std::nullopt;
  }
  RawResponse response;
  std::string_view lines = std::string_view(buffer_).substr(0, head);
  std::from_chars(lines.data() + 9, lines.data() + 12, response.status);
  while (!lines.empty()) {
    const size_t end = lines.find("\r\n");
    const std::string_view line = lines.substr(0, end);
    const size_t colon = line.find(": ");
    if (colon != std::string_view::npos) {
      response.headers.emplace_back(lower(std::string(line.substr(0, colon))),
                                    line.substr(colon + 2));
    }
    lines.remove_prefix(end == std::string_view::npos ? lines.size() : end + 2);
  }
  const size_t begin = head + 4;
  if (response.header("transfer-encoding") == "chunked") {
    size_t consumed = 0;
    for (;;) {
      const auto body = joined_chunks(std::string_view(buffer_).substr(begin), consumed);
      if (body) {
        response.body = *body;
        break;
      }
      if (!receive()) return std::nullopt;
    }
    buffer_.erase(0, begin + consumed);
    return response;
  }
  const std::string length = response.header("content-length");
  if (length.empty()) {
    while (receive()) {
    }
    response.body = buffer_.substr(begin);
    buffer_.clear();
    return response;
  }
  const size_t bytes = std::stoul(length);
  while (buffer_.size() < begin + bytes) {
    if (!receive()) return std::nullopt;
  }
  response.body = buffer_.substr(begin, bytes);
  buffer_.erase(0, begin + bytes);
  return response;
}

std::optional<std::string> RawClient::take_until(std::string_view text) {
  size_t found = 0;
  while ((found = buffer_.find(text)) == std::string::npos) {
    if (!receive()) return std::nullopt;
  }
  std::string taken = buffer_.substr(0, found + text.size());
  buffer_.erase(0, found + text.size());
  return taken;
}

bool RawClient::is_closed() {
  while (receive()) {
  }
  return ended_;
}

RawResponse RawClient::request(std::string_view method, std::string_view path,
                               std::string_view body, std::string_view headers) {
  std::string bytes;
  bytes.append(method).append(" ").append(path).append(" HTTP/1.1\r\nHost: localhost\r\n");
  bytes.append(headers);
  if (!body.empty() || method == "POST") {
    bytes.append("Content-Length: ").append(std::to_string(body.size())).append("\r\n");
  }
  bytes.append("\r\n").append(body);
  send(bytes);
  const auto response = read_response();
  EXPECT_TRUE(response.has_value()) << method << " " << path << " got no whole answer";
  return response.value_or(RawResponse());
}

RawResponse RawClient::post(std::string_view path, const formats::Json& body) {
  return request("POST", path, body.dump(), "Content-Type: application/json\r\n");
}

formats::Json json(std::string_view text) {
  Result<formats::Json> parsed = formats::Json::parse(text, "a test's JSON");
  EXPECT_TRUE(parsed.ok()) << text;
  return parsed.ok() ? *parsed : formats::Json();
}

const formats::Json& at(const formats::Json& json, std::string_view path) {
  static const formats::Json kNull;
  const formats::Json* here = &json;
  while (!path.empty()) {
    const size_t dot = path.find('.');
    const std::string_view name = path.substr(0, dot);
    if (const formats::Json::Array* array = here->as_array()) {
      size_t index = 0;
      std::from_chars(name.data(), name.data() + name.size(), index);
      if (index >= array->size()) return kNull;
      here = &(*array)[index];
    } else {
      here = here->find(name);
      if (here == nullptr) return kNull;
    }
    path.remove_prefix(dot == std::string_view::npos ? path.size() : dot + 1);
  }
  return *here;
}

std::string text_at(const formats::Json& json, std::string_view path) {
  const std::string* text = at(json, path).as_string();
  return text != nullptr ? *text : "";
}

}  // namespace quire::server
