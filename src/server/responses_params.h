// responses_params.h: what OpenAI's Responses API is asked, as the chat route's parameters.
//
// Nothing is stored between requests: the whole conversation comes in `input`. Pure.
#pragma once
#include "server/chat_params.h"
#include "server/generation_params.h"

namespace quire::server {

struct ResponsesRequest {
  ChatParams chat;
  GenerationParams params;
};

ResponsesRequest read_responses(Fields& fields, const GenerationDefaults& defaults);

}  // namespace quire::server
