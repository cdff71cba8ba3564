#include "server/host_check.h"

#include <fmt/format.h>

#include <algorithm>

#include "formats/printable.h"

namespace quire::server {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

/// "localhost" of "localhost:8080", "[::1]" of "[::1]:8080".
std::string name_of(std::string_view host) {
  const size_t after = host.starts_with('[') ? host.find(']') : 0;
  if (after == std::string_view::npos) return lower(host);
  return lower(host.substr(0, host.find(':', after)));
}

bool is_address(std::string_view name) {
  if (name.starts_with('[')) return name.ends_with(']');
  return !name.empty() && name.find_first_not_of("0123456789.") == std::string_view::npos;
}

bool is_here(std::string_view name) {
  return name == "localhost" || name.ends_with(".localhost") || is_address(name);
}

bool lists(const std::vector<std::string>& list, std::string_view name) {
  return std::ranges::any_of(
      list, [&](const std::string& each) { return each == "*" || lower(each) == name; });
}

/// "host:port" of an origin, without its default port.
std::string_view authority_of(std::string_view origin) {
  const size_t scheme = origin.find("://");
  return scheme == std::string_view::npos ? origin : origin.substr(scheme + 3);
}

}  // namespace

bool is_cross_origin(const HttpRequest& request) {
  const std::string* origin = request.header("origin");
  const std::string* host = request.header("host");
  return origin != nullptr && (host == nullptr || authority_of(*origin) != *host);
}

std::optional<std::string> check_host_and_origin(const ServingOptions& options,
                                                 const HttpRequest& request) {
  const std::string* host = request.header("host");
  if (host != nullptr) {  // HTTP/1.0 may leave it out
    const std::string name = name_of(*host);
    if (!is_here(name) && !lists(options.allowed_hosts, name)) {
      return fmt::format("Host '{}' is not served here; start the server with --allowed-host {}",
                         formats::printable(*host), formats::printable(name));
    }
  }
  if (is_cross_origin(request) &&
      !lists(options.allowed_origins, lower(*request.header("origin")))) {
    return fmt::format(
        "pages of {} may not use this server; start it with --cors-origin to allow them",
        formats::printable(*request.header("origin")));
  }
  return std::nullopt;
}

}  // namespace quire::server
