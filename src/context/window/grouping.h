// grouping.h: which messages belong together, and what may be done with each.
//
// A turn is a question and everything up to the next one; after the last question each call stands
// with its results. Pure functions.
#pragma once
#include <vector>

#include "context/window/part.h"
#include "context/window/request.h"

namespace quire::context::window {

struct Grouping {
  std::vector<Part> parts;  // one a message, without tokens
  std::vector<Group> groups;
  std::vector<int32_t> group_of_message;
  int32_t question = 0;  // index of its message
};

/// Requires at least one message, and a context for each.
Grouping group_messages(const formats::Json::Array& messages,
                        const std::vector<MessageContext>& contexts);

}  // namespace quire::context::window
