// compaction.h: a shorter view of a stored conversation, planned by the window's policies.
//
// What the window's planner keeps, cuts, masks and summarizes of the messages is said of the items
// that they are made of: a view of the store, which deletes nothing. Pure but for the clock that
// templates may ask for.
#pragma once
#include <optional>
#include <vector>

#include "context/conversation_store.h"
#include "context/window/policy.h"
#include "server/chat_params.h"
#include "server/serving.h"
#include "server/stored_responses.h"

namespace quire::server {

/// What the last request said beside the conversation, and the next will most likely say too.
struct Surroundings {
  ChatParams chat;  // tools and variables; its messages are not used
  std::optional<std::string> instructions;
  context::window::WindowPolicy policy;
};

/// Tokens of prompt and answer above which a stored conversation is compacted.
int64_t high_watermark(const Backend& backend, const context::window::WindowPolicy& policy);

/// Items as a view has them, in order: what the next request will go on with.
struct Compaction {
  context::View view;
  std::vector<HistoryItem> items;
};

/// Brings a conversation below the low watermark. Nothing if it is there already, or if the
/// policy's plan cannot be said of items. `history` must end at a message.
std::optional<Compaction> compact(const Backend& backend, const Surroundings& around,
                                  const History& history);

/// The tokens that every prompt which goes on with the items begins with. Nothing if the template
/// refuses them.
std::optional<std::vector<TokenId>> beginning_of(const Backend& backend, const Surroundings& around,
                                                 const std::vector<HistoryItem>& items);

}  // namespace quire::server
