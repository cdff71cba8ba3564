// response_items.h: items of OpenAI's Responses and Conversations APIs: messages, calls, their
// results.
//
// An item is kept as it was given, or generated; what the model sees of it is made anew for each
// request, so that a stored conversation reads exactly as one that its client sends whole. Pure.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/json.h"
#include "server/fields.h"

namespace quire::server {

/// An item as it stands in a conversation.
struct StoredItem {
  std::string id;
  formats::Json item;  // an object; its own id, if it has one, is not used
};

/// `name`: a text, or an array of items. Mistakes stay in `fields`.
std::vector<formats::Json> read_items(Fields& fields, std::string_view name);

/// Adds what the model sees of the items to `messages`, an array; `name` is theirs in errors.
void add_messages(Fields& fields, formats::Json& messages, std::span<const formats::Json> items,
                  std::string_view name);

/// The message that `instructions` are.
formats::Json system_message(const std::string& instructions);
/// Another text in the place of an item's own: of a message, or of a call's output.
void set_text(formats::Json& item, const std::string& text);

/// As clients are shown it: with its id, a status, and content in parts.
formats::Json item_json(const StoredItem& stored);

/// "user", "assistant", "tool", ...: whose turn it is.
std::string role_of_item(const formats::Json& item);
/// What a search looks through.
std::string text_of_item(const formats::Json& item);
/// "msg_", "fc_", ...: how ids of its kind begin.
std::string_view id_prefix_of(const formats::Json& item);

/// Which part of a list is asked for.
struct ListQuery {
  size_t limit = 20;
  bool ascending = false;
  std::string after;  // an item's id; empty: from the beginning
};
/// Of the request's query; what it does not know is left alone.
ApiResult<ListQuery> read_list_query(std::string_view query);
/// {object: "list", data, first_id, last_id, has_more}. 400 if there is no item `after`.
ApiResult<formats::Json> list_json(std::vector<StoredItem> items, const ListQuery& query);

/// `metadata`: at most 16 texts of 512 characters. An empty object if there is none.
formats::Json read_metadata(Fields& fields);

}  // namespace quire::server
