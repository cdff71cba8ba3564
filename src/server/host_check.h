// host_check.h: whether a request was meant for this server: its Host and its Origin.
//
// A web page may not use a browser to ask a server on the user's machine: neither by a name that
// points here (DNS rebinding: such names stand in Host) nor from another origin. Addresses and
// "localhost" are always fine as Host. Pure functions.
#pragma once
#include <optional>
#include <string>

#include "server/http.h"
#include "server/serving.h"

namespace quire::server {

/// A sentence if the request is to be refused.
std::optional<std::string> check_host_and_origin(const ServingOptions& options,
                                                 const HttpRequest& request);

/// Whether a web page of another origin asks.
bool is_cross_origin(const HttpRequest& request);

}  // namespace quire::server
