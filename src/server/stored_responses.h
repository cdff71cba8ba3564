// stored_responses.h: responses and the items of conversations, as they lie in the store.
//
// Every item is a message of the store. A response is one more behind the items that it generated:
// it holds the reply, says how many items before it are its own, and has the response's id as its
// handle. So `previous_response_id` leads to a place in a tree, and going on twice from one place
// makes two branches. Responses that belong to no conversation grow trees whose handles nobody is
// told. Runs where the store may wait (server/store_thread.h); nothing found is an absence.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "context/conversation_store.h"
#include "server/response_items.h"

namespace quire::server {

/// Where a response's items lie.
enum class Chain : uint8_t {
  kOwn,           // in a tree of responses alone
  kConversation,  // in a conversation: it goes on with them
  kBranch,        // beside a conversation that it was forked from
};

/// An item as the model sees it: itself, or with a text that stands for others too.
struct HistoryItem {
  StoredItem stored;
  context::MessageId first, last;   // of the messages that it stands for
  std::optional<std::string> text;  // that stands in it; absent: its own
};

/// What a request goes on with: the newest view of what was said, and what came after it.
struct History {
  context::ConversationId conversation;
  std::optional<context::MessageId> at;  // the last message
  Chain chain = Chain::kOwn;
  std::vector<HistoryItem> items = {};
  std::optional<context::ViewId> view = {};  // that shows its beginning
  int64_t num_stored = 0;                    // items that it stands for
};

using context::ConversationStore;

Result<std::optional<History>> history_of_response(ConversationStore& store, std::string_view owner,
                                                   std::string_view id);
Result<std::optional<History>> history_of_conversation(ConversationStore& store,
                                                       std::string_view owner, std::string_view id);

/// Up to a message. Nothing if it is gone.
Result<std::optional<History>> history_at(ConversationStore& store,
                                          const ConversationStore::Place& place);

/// One answered request.
struct Turn {
  std::string response_id;
  formats::Json response;  // the reply
  std::vector<StoredItem> input, output;
  std::string model;
  std::string conversation;        // whose it is; "": no conversation's
  std::optional<History> history;  // without its items; absent: the first of its chain
};

/// Where a turn was put: its last message.
using Place = ConversationStore::Place;
/// All of it or nothing. In a conversation it goes behind what was added meanwhile. kNotFound or
/// kUsage if what it goes on with was removed.
Result<Place> keep_turn(ConversationStore& store, std::string_view owner, const Turn& turn);

/// The reply, as it was given.
Result<std::optional<formats::Json>> find_response(ConversationStore& store, std::string_view owner,
                                                   std::string_view id);
/// What that request's `input` held.
Result<std::optional<std::vector<StoredItem>>> input_of_response(ConversationStore& store,
                                                                 std::string_view owner,
                                                                 std::string_view id);
/// False if there is none. Its items are wiped with it unless a conversation has them or another
/// response goes on with them.
Result<bool> delete_response(ConversationStore& store, std::string_view owner, std::string_view id);

/// The items of a conversation, oldest first.
Result<std::vector<StoredItem>> items_of(ConversationStore& store,
                                         const context::ConversationInfo& conversation);
/// Behind its last one.
Result<void> add_items(ConversationStore& store, const context::ConversationInfo& conversation,
                       const std::vector<StoredItem>& items);
/// False if there is none of that id.
Result<bool> delete_item(ConversationStore& store, const context::ConversationInfo& conversation,
                         std::string_view id);

}  // namespace quire::server
