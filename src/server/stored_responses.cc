#include "server/stored_responses.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

namespace quire::server {
namespace {

using context::ConversationInfo;
using context::MessageId;
using context::NewMessage;
using context::StoredMessage;
using formats::Json;

// The role of the message that holds a response.
constexpr std::string_view kResponseRole = "response";
constexpr std::array<std::string_view, 3> kChains = {"own", "conversation", "branch"};

NewMessage message_of(const StoredItem& stored, const std::string& model) {
  Json fields;
  fields.set("id", stored.id);
  fields.set("item", stored.item);
  return {.role = role_of_item(stored.item),
          .content = text_of_item(stored.item),
          .fields = std::move(fields),
          .tokens = {},
          .model = model};
}

NewMessage message_of(const Turn& turn, Chain chain) {
  Json fields;
  fields.set("response", turn.response);
  fields.set("input", static_cast<int64_t>(turn.input.size()));
  fields.set("output", static_cast<int64_t>(turn.output.size()));
  fields.set("chain", kChains[static_cast<size_t>(chain)]);
  return {.role = std::string(kResponseRole),
          .content = "",
          .fields = std::move(fields),
          .tokens = {},
          .model = turn.model,
          .handle = turn.response_id};
}

/// Nothing for what is no item: responses, and what was erased.
std::optional<StoredItem> item_of(const StoredMessage& message) {
  const Json* id = message.message.fields.find("id");
  const Json* item = message.message.fields.find("item");
  if (id == nullptr || !id->is_string() || item == nullptr || !item->is_object()) {
    return std::nullopt;
  }
  return StoredItem{*id->as_string(), *item};
}

std::vector<StoredItem> items_among(std::span<const StoredMessage> messages) {
  std::vector<StoredItem> items;
  for (const StoredMessage& message : messages) {
    if (auto item = item_of(message)) items.push_back(*std::move(item));
  }
  return items;
}

/// The path as the model sees it: through the newest view of its beginning, if there is one.
Result<void> add_items_seen(ConversationStore& store, std::span<const StoredMessage> path,
                            History& history) {
  std::optional<context::View> view;
  if (history.at) {
    QUIRE_TRY(view, store.view_for(history.conversation, *history.at));
  }
  const auto add = [&](MessageId first, MessageId last, const std::optional<std::string>& text) {
    const auto found = std::ranges::lower_bound(path, last, {}, &StoredMessage::id);
    if (found == path.end() || found->id != last) return;
    auto item = item_of(*found);
    if (!item) return;
    if (text) set_text(item->item, *text);
    history.items.push_back({*std::move(item), first, last, text});
  };
  if (view) {
    history.view = view->id;
    for (const context::View::Item& item : view->items) add(item.first, item.last, item.summary);
  }
  for (const StoredMessage& message : path) {
    if (!view || message.id > view->head) add(message.id, message.id, std::nullopt);
  }
  history.num_stored = static_cast<int64_t>(items_among(path).size());
  return {};
}

/// A response and the path to it.
struct Found {
  Place place;
  std::vector<StoredMessage> path;  // its own message is the last

  const Json& fields() const { return path.back().message.fields; }
  int64_t count(std::string_view name) const {
    const Json* value = fields().find(name);
    return value != nullptr ? std::max<int64_t>(value->as_int().value_or(0), 0) : 0;
  }
  Chain chain() const {
    const Json* value = fields().find("chain");
    const auto is_named = [&](std::string_view name) {
      return value != nullptr && value->is_string() && *value->as_string() == name;
    };
    const auto named = std::ranges::find_if(kChains, is_named);
    return named == kChains.end() ? Chain::kOwn : static_cast<Chain>(named - kChains.begin());
  }
  /// The messages of its own items: input, then output.
  std::span<const StoredMessage> own() const {
    const size_t before = path.size() - 1;
    const size_t wanted =
        static_cast<size_t>(count("input")) + static_cast<size_t>(count("output"));
    const size_t taken = std::min(wanted, before);
    return std::span(path).subspan(before - taken, taken);
  }
};

Result<std::optional<Found>> find(ConversationStore& store, std::string_view owner,
                                  std::string_view id) {
  QUIRE_TRY(const auto place, store.find_message(owner, id));
  if (!place) return std::optional<Found>();
  Found found{.place = *place, .path = {}};
  QUIRE_TRY(found.path, store.path(place->conversation, place->message));
  if (found.path.empty() || found.path.back().message.role != kResponseRole) {
    return std::optional<Found>();
  }
  return std::optional(std::move(found));
}

/// Whether something that was not erased goes on with a message.
bool has_successor(std::span<const StoredMessage> all, MessageId message) {
  std::set<MessageId> after = {message};
  for (const StoredMessage& each : all) {  // ids ascend along every branch
    if (!each.parent || !after.contains(*each.parent)) continue;
    if (each.message.role != context::kErasedRole) return true;
    after.insert(each.id);
  }
  return false;
}

}  // namespace

Result<std::optional<History>> history_of_response(ConversationStore& store, std::string_view owner,
                                                   std::string_view id) {
  QUIRE_TRY(const auto found, find(store, owner, id));
  if (!found) return std::optional<History>();
  History history{.conversation = found->place.conversation,
                  .at = found->place.message,
                  .chain = found->chain() == Chain::kOwn ? Chain::kOwn : Chain::kBranch};
  QUIRE_TRY_VOID(add_items_seen(store, found->path, history));
  return std::optional(std::move(history));
}

Result<std::optional<History>> history_of_conversation(ConversationStore& store,
                                                       std::string_view owner,
                                                       std::string_view id) {
  QUIRE_TRY(const ConversationStore::Found info, store.find_by_handle(owner, id));
  if (!info) return std::optional<History>();
  History history{.conversation = info->id, .at = info->head, .chain = Chain::kConversation};
  QUIRE_TRY(const std::vector<StoredMessage> path, store.path(info->id, info->head));
  QUIRE_TRY_VOID(add_items_seen(store, path, history));
  return std::optional(std::move(history));
}

Result<std::optional<History>> history_at(ConversationStore& store, const Place& place) {
  History history{.conversation = place.conversation, .at = place.message};
  QUIRE_TRY(const std::vector<StoredMessage> path, store.path(place.conversation, place.message));
  if (path.empty()) return std::optional<History>();
  QUIRE_TRY_VOID(add_items_seen(store, path, history));
  return std::optional(std::move(history));
}

Result<Place> keep_turn(ConversationStore& store, std::string_view owner, const Turn& turn) {
  const Chain chain = turn.history ? turn.history->chain : Chain::kOwn;
  context::ConversationId conversation;
  std::optional<MessageId> parent;
  if (!turn.history) {
    QUIRE_TRY(const ConversationInfo info, store.create(owner, "", Json(Json::Object{})));
    conversation = info.id;
  } else {
    conversation = turn.history->conversation;
    parent = turn.history->at;
  }
  if (chain == Chain::kConversation) {
    QUIRE_TRY(const ConversationStore::Found info, store.find_by_handle(owner, turn.conversation));
    if (!info) return Error{ErrorCode::kNotFound, "the conversation was deleted meanwhile"};
    parent = info->head;
  }
  std::vector<NewMessage> messages;
  for (const StoredItem& item : turn.input) messages.push_back(message_of(item, ""));
  for (const StoredItem& item : turn.output) messages.push_back(message_of(item, turn.model));
  messages.push_back(message_of(turn, chain));
  const auto go_on = chain == Chain::kBranch ? ConversationStore::GoOn::kAsBefore
                                             : ConversationStore::GoOn::kWithTheLast;
  QUIRE_TRY(const auto ids, store.append(conversation, parent, messages, go_on));
  return Place{conversation, ids.back()};
}

Result<std::optional<Json>> find_response(ConversationStore& store, std::string_view owner,
                                          std::string_view id) {
  QUIRE_TRY(const auto found, find(store, owner, id));
  const Json* response = found ? found->fields().find("response") : nullptr;
  return response != nullptr ? std::optional(*response) : std::nullopt;
}

Result<std::optional<std::vector<StoredItem>>> input_of_response(ConversationStore& store,
                                                                 std::string_view owner,
                                                                 std::string_view id) {
  QUIRE_TRY(const auto found, find(store, owner, id));
  if (!found) return std::optional<std::vector<StoredItem>>();
  const std::span<const StoredMessage> own = found->own();
  const auto count = std::min(own.size(), static_cast<size_t>(found->count("input")));
  return std::optional(items_among(own.first(count)));
}

Result<bool> delete_response(ConversationStore& store, std::string_view owner,
                             std::string_view id) {
  QUIRE_TRY(const auto found, find(store, owner, id));
  if (!found) return false;
  const context::ConversationId tree = found->place.conversation;
  QUIRE_TRY(const std::vector<StoredMessage> all, store.all_messages(tree));
  const auto is_other_response = [&](const StoredMessage& message) {
    return message.message.role == kResponseRole && message.id != found->place.message;
  };
  if (found->chain() == Chain::kOwn && std::ranges::none_of(all, is_other_response)) {
    QUIRE_TRY_VOID(store.remove(tree));
    return true;
  }
  std::vector<MessageId> gone = {found->place.message};
  if (found->chain() != Chain::kConversation && !has_successor(all, found->place.message)) {
    for (const StoredMessage& message : found->own()) gone.push_back(message.id);
  }
  QUIRE_TRY_VOID(store.erase(tree, gone));
  return true;
}

Result<std::vector<StoredItem>> items_of(ConversationStore& store,
                                         const ConversationInfo& conversation) {
  QUIRE_TRY(const std::vector<StoredMessage> path, store.path(conversation.id, conversation.head));
  return items_among(path);
}

Result<void> add_items(ConversationStore& store, const ConversationInfo& conversation,
                       const std::vector<StoredItem>& items) {
  std::vector<NewMessage> messages;
  for (const StoredItem& item : items) messages.push_back(message_of(item, ""));
  QUIRE_TRY(const auto ids, store.append(conversation.id, conversation.head, messages));
  static_cast<void>(ids);
  return {};
}

Result<bool> delete_item(ConversationStore& store, const ConversationInfo& conversation,
                         std::string_view id) {
  QUIRE_TRY(const std::vector<StoredMessage> path, store.path(conversation.id, conversation.head));
  const auto found = std::ranges::find_if(path, [&](const StoredMessage& message) {
    const auto item = item_of(message);
    return item && item->id == id;
  });
  if (found == path.end()) return false;
  QUIRE_TRY_VOID(store.erase(conversation.id, std::array{found->id}));
  return true;
}

}  // namespace quire::server
