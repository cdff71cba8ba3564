// chat_call.h: one streamed chat completion, with the time of each of its tokens.
//
// Speaks what every OpenAI-compatible server understands. Any number of threads.
#pragma once
#include <chrono>
#include <string>

#include "formats/json.h"
#include "loadtest/http_client.h"
#include "loadtest/statistics.h"

namespace quire::loadtest {

/// Where to ask, and how.
struct Target {
  Address address;
  std::string api_key;  // empty: none
  std::string model;
  int64_t max_tokens = 64;
  bool ignore_eos = false;  // servers that know it go on to max_tokens
};

struct ChatReply {
  CallRecord record;
  std::string text;
};

/// `origin` is when the load began.
ChatReply call_chat(const Target& target, const formats::Json& messages, const Patience& patience,
                    std::chrono::steady_clock::time_point origin);

/// A JSON document of the server.
Result<formats::Json> get_json(const Target& target, const std::string& path,
                               const Patience& patience);

/// The first model that the server lists.
Result<std::string> first_model(const Target& target, const Patience& patience);

}  // namespace quire::loadtest
