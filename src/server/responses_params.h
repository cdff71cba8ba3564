// responses_params.h: what OpenAI's Responses API is asked, as the chat route's parameters.
//
// The conversation is what `input` holds, behind what is stored under `previous_response_id` or
// `conversation`. Pure.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "server/chat_params.h"
#include "server/generation_params.h"
#include "server/response_items.h"

namespace quire::server {

/// What stored conversation a request goes on with, and whether it is stored itself.
struct Continuation {
  std::string previous_response;  // its id; "" for none
  std::string conversation;       // likewise; never both
  bool store = false;
};

struct ResponsesRequest {
  ChatParams chat;
  GenerationParams params;
  std::optional<std::string> instructions;
  std::vector<formats::Json> input;  // items, as they were given
  Continuation continuation;
  formats::Json metadata;
};

/// Whether the server stores anything.
enum class Keeps : uint8_t { kNothing, kConversations };

/// With the messages of `input` alone.
ResponsesRequest read_responses(Fields& fields, const GenerationDefaults& defaults, Keeps keeps);

/// Sets the messages: instructions, what was said before, and `input`.
void read_conversation_so_far(Fields& fields, ResponsesRequest& request,
                              std::span<const formats::Json> history);

}  // namespace quire::server
