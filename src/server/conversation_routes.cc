// /v1/conversations and their items: conversations that requests to /v1/responses go on with.
#include <fmt/format.h>

#include "formats/printable.h"
#include "server/epochs.h"
#include "server/routes.h"
#include "server/stored_responses.h"

namespace quire::server {
namespace {

using context::ConversationInfo;
using formats::Json;

Json conversation_json(const ConversationInfo& info) {
  Json json;
  json.set("id", info.handle);
  json.set("object", "conversation");
  json.set("created_at", info.created_ms / 1000);
  json.set("metadata", info.metadata);
  return json;
}

/// The same for an id that is nobody's and for another key's.
ApiError no_conversation(const Call& call) {
  return not_found(fmt::format("Conversation with id '{}' not found.",
                               formats::printable(call.captures.front())));
}

ApiError no_item(const Call& call) {
  return not_found(fmt::format("Conversation item with id '{}' not found.",
                               formats::printable(call.captures.back())));
}

/// The body; an empty one is an empty object. Nothing after having answered with the error.
std::optional<Json> body_or_empty(const Call& call) {
  if (call.exchange->request().body.empty()) return Json(Json::Object{});
  return read_body(call);
}

/// `items`, each with an id and checked as those of a request; none if they may be absent.
std::vector<StoredItem> read_new_items(Serving& serving, Fields& fields) {
  const std::vector<Json> items = read_items(fields, "items");
  Json messages(Json::Array{});
  add_messages(fields, messages, items, "items");
  std::vector<StoredItem> out;
  if (!fields.ok()) return out;
  for (const Json& item : items) out.push_back({serving.new_id(id_prefix_of(item)), item});
  return out;
}

bool holds_items(const Json& body) {
  const Json* items = body.find("items");
  return items != nullptr && !items->is_null() && *items != Json(Json::Array{});
}

/// Whole, oldest first, however many there are.
Json whole_list(const std::vector<StoredItem>& items) {
  return *list_json(items, {.limit = items.size(), .ascending = true, .after = ""});
}

/// Finds the conversation that the path names, lets `question` look at it, and `answer` reply.
template <class T>
void with_conversation(
    const Call& call,
    std::function<Result<T>(ConversationStore&, const ConversationInfo&)> question,
    std::function<void(T)> answer) {
  using Found = std::optional<T>;
  call.serving.store()->ask<Found>(
      [call, question = std::move(question)](ConversationStore& store) -> Result<Found> {
        QUIRE_TRY(const ConversationStore::Found info,
                  store.find_by_handle(call.owner, call.captures.front()));
        if (!info) return Found();
        QUIRE_TRY(T result, question(store, *info));
        return Found(std::move(result));
      },
      [call, answer = std::move(answer)](ApiResult<Found> found) {
        if (!found.ok()) return reply(call, found.error());
        if (!*found) return reply(call, no_conversation(call));
        answer(**std::move(found));
      });
}

}  // namespace

void handle_create_conversation(const Call& call) {
  const std::optional<Json> body = body_or_empty(call);
  if (!body) return;
  Fields fields(*body);
  const Json metadata = read_metadata(fields);
  std::vector<StoredItem> items;
  if (holds_items(*body)) items = read_new_items(call.serving, fields);
  if (fields.error()) return reply(call, *fields.error());
  call.serving.store()->ask<ConversationInfo>(
      [call, metadata, items](ConversationStore& store) -> Result<ConversationInfo> {
        QUIRE_TRY(ConversationInfo info, store.create(call.owner, "", metadata));
        if (!items.empty()) QUIRE_TRY_VOID(add_items(store, info, items));
        return info;
      },
      [call](ApiResult<ConversationInfo> created) {
        if (!created.ok()) return reply(call, created.error());
        reply(call, conversation_json(*created));
      });
}

void handle_conversation(const Call& call) {
  with_conversation<Json>(
      call,
      [](ConversationStore&, const ConversationInfo& info) -> Result<Json> {
        return conversation_json(info);
      },
      [call](const Json& json) { reply(call, json); });
}

void handle_update_conversation(const Call& call) {
  const std::optional<Json> body = read_body(call);
  if (!body) return;
  Fields fields(*body);
  if (!fields.has("metadata")) fields.fail("metadata", "it is missing.");
  const Json metadata = read_metadata(fields);
  if (fields.error()) return reply(call, *fields.error());
  with_conversation<Json>(
      call,
      [metadata](ConversationStore& store, ConversationInfo info) -> Result<Json> {
        QUIRE_TRY_VOID(store.set_metadata(info.id, metadata));
        info.metadata = metadata;
        return conversation_json(info);
      },
      [call](const Json& json) { reply(call, json); });
}

void handle_delete_conversation(const Call& call) {
  with_conversation<bool>(
      call,
      [call](ConversationStore& store, const ConversationInfo& info) -> Result<bool> {
        call.serving.epochs()->cancel(info.id);
        QUIRE_TRY_VOID(store.remove(info.id));
        return true;
      },
      [call](bool) {
        Json json;
        json.set("id", call.captures.front());
        json.set("object", "conversation.deleted");
        json.set("deleted", true);
        reply(call, json);
      });
}

void handle_add_items(const Call& call) {
  const std::optional<Json> body = read_body(call);
  if (!body) return;
  Fields fields(*body);
  const std::vector<StoredItem> items = read_new_items(call.serving, fields);
  if (fields.error()) return reply(call, *fields.error());
  with_conversation<bool>(
      call,
      [call, items](ConversationStore& store, const ConversationInfo& info) -> Result<bool> {
        call.serving.epochs()->cancel(info.id);
        QUIRE_TRY_VOID(add_items(store, info, items));
        return true;
      },
      [call, items](bool) { reply(call, whole_list(items)); });
}

void handle_items(const Call& call) {
  ApiResult<ListQuery> query = read_list_query(call.exchange->request().query);
  if (!query.ok()) return reply(call, query.error());
  with_conversation<std::vector<StoredItem>>(
      call,
      [](ConversationStore& store, const ConversationInfo& info) { return items_of(store, info); },
      [call, query = *query](std::vector<StoredItem> items) {
        ApiResult<Json> list = list_json(std::move(items), query);
        if (!list.ok()) return reply(call, list.error());
        reply(call, *list);
      });
}

void handle_item(const Call& call) {
  with_conversation<std::vector<StoredItem>>(
      call,
      [](ConversationStore& store, const ConversationInfo& info) { return items_of(store, info); },
      [call](const std::vector<StoredItem>& items) {
        for (const StoredItem& item : items) {
          if (item.id == call.captures.back()) return reply(call, item_json(item));
        }
        reply(call, no_item(call));
      });
}

void handle_delete_item(const Call& call) {
  using Deleted = std::optional<Json>;
  with_conversation<Deleted>(
      call,
      [call](ConversationStore& store, const ConversationInfo& info) -> Result<Deleted> {
        call.serving.epochs()->cancel(info.id);
        QUIRE_TRY(const bool deleted, delete_item(store, info, call.captures.back()));
        return deleted ? Deleted(conversation_json(info)) : Deleted();
      },
      [call](const Deleted& conversation) {
        if (!conversation) return reply(call, no_item(call));
        reply(call, *conversation);
      });
}

}  // namespace quire::server
