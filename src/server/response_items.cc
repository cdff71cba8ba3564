#include "server/response_items.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "formats/printable.h"
#include "server/chat_params.h"
#include "server/http.h"

namespace quire::server {
namespace {

using formats::Json;

constexpr size_t kMostItems = 16384;
constexpr size_t kMostListed = 100;
constexpr size_t kMostMetadata = 16;
constexpr size_t kMostMetadataName = 64;
constexpr size_t kMostMetadataBytes = 512;

void fail_at(Fields& fields, const std::string& param, std::string_view message) {
  fields.fail(bad_param(param, fmt::format("Invalid '{}': {}", param, message)));
}

std::string text_of(const Json& item, std::string_view name) {
  const Json* value = item.find(name);
  return value != nullptr && value->is_string() ? *value->as_string() : "";
}

std::string type_of(const Json& item) {
  return item.find("type") != nullptr ? text_of(item, "type") : "message";
}

/// A call that the model made: part of the assistant's message, with others beside it.
void add_call(Json& messages, const Json& item) {
  Json function;
  function.set("name", text_of(item, "name"));
  function.set("arguments", text_of(item, "arguments"));
  Json call;
  call.set("id", text_of(item, "call_id"));
  call.set("type", "function");
  call.set("function", std::move(function));
  Json::Array& all = *messages.as_array();
  const bool joins = !all.empty() && text_of(all.back(), "role") == "assistant";
  if (!joins) {
    Json message;
    message.set("role", "assistant");
    message.set("content", Json());
    all.push_back(std::move(message));
  }
  const Json* calls = all.back().find("tool_calls");
  Json joined = calls != nullptr ? *calls : Json(Json::Array{});
  joined.push_back(std::move(call));
  all.back().set("tool_calls", std::move(joined));
}

void add_item(Fields& fields, Json& messages, const Json& item, const std::string& param) {
  const std::string type = type_of(item);
  if (type == "message") {
    messages.push_back(read_message(fields, item, param));
  } else if (type == "function_call") {
    if (text_of(item, "name").empty()) return fail_at(fields, param + ".name", "it is missing.");
    add_call(messages, item);
  } else if (type == "function_call_output") {
    Json message;
    message.set("role", "tool");
    message.set("tool_call_id", text_of(item, "call_id"));
    const Json* output = item.find("output");
    message.set("content", output != nullptr ? *output : Json());
    messages.push_back(read_message(fields, message, param));
  } else if (type != "reasoning") {  // earlier reasoning is not shown to the model again
    fail_at(fields, param + ".type",
            fmt::format("items of type '{}' are not supported.", formats::printable(type)));
  }
}

/// {type, text} and what else such a part has.
Json text_part(std::string_view type, const std::string& text) {
  Json part;
  part.set("type", type);
  part.set("text", text);
  if (type == "output_text") {
    part.set("annotations", Json(Json::Array{}));
    part.set("logprobs", Json(Json::Array{}));
  }
  return part;
}

/// A text given as such is shown as the part that it means.
Json shown_content(const Json& item) {
  const std::string_view type = text_of(item, "role") == "assistant" ? "output_text" : "input_text";
  const Json* content = item.find("content");
  Json parts(Json::Array{});
  if (content == nullptr || content->is_null()) return parts;
  if (const std::string* text = content->as_string()) {
    parts.push_back(text_part(type, *text));
    return parts;
  }
  if (!content->is_array()) return parts;
  for (const Json& part : *content->as_array()) {
    parts.push_back(part.is_string() ? text_part(type, *part.as_string()) : part);
  }
  return parts;
}

std::string content_text(const Json* content) {
  if (content == nullptr) return "";
  if (const std::string* text = content->as_string()) return *text;
  std::string joined;
  if (!content->is_array()) return joined;
  for (const Json& part : *content->as_array()) {
    const std::string text = part.is_string() ? *part.as_string() : text_of(part, "text");
    if (!joined.empty() && !text.empty()) joined += '\n';
    joined += text;
  }
  return joined;
}

std::optional<size_t> parse_limit(std::string_view text) {
  size_t limit = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), limit);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return limit >= 1 && limit <= kMostListed ? std::optional(limit) : std::nullopt;
}

}  // namespace

std::vector<Json> read_items(Fields& fields, std::string_view name) {
  const Json* given = fields.find(name);
  if (given == nullptr) {
    fields.fail(name, "it is missing.");
    return {};
  }
  if (const std::string* text = given->as_string()) {
    Json message;
    message.set("role", "user");
    message.set("content", *text);
    return {message};
  }
  const Json* items = fields.array(name, kMostItems);
  if (items == nullptr) return {};
  const Json::Array& all = *items->as_array();
  if (all.empty()) fields.fail(name, "it must hold at least one item.");
  return all;
}

void add_messages(Fields& fields, Json& messages, std::span<const Json> items,
                  std::string_view name) {
  for (size_t i = 0; i < items.size() && fields.ok(); ++i) {
    add_item(fields, messages, items[i], fmt::format("{}[{}]", name, i));
  }
}

Json system_message(const std::string& instructions) {
  Json message;
  message.set("role", "system");
  message.set("content", instructions);
  return message;
}

void set_text(Json& item, const std::string& text) {
  item.set(type_of(item) == "function_call_output" ? "output" : "content", text);
}

Json item_json(const StoredItem& stored) {
  const std::string type = type_of(stored.item);
  Json json;
  json.set("id", stored.id);
  json.set("type", type);
  for (const auto& [name, value] : *stored.item.as_object()) {
    if (name != "id" && name != "type") json.set(name, value);
  }
  if (stored.item.find("status") == nullptr) json.set("status", "completed");
  if (type == "message") json.set("content", shown_content(stored.item));
  return json;
}

std::string role_of_item(const Json& item) {
  const std::string type = type_of(item);
  if (type == "message") return text_of(item, "role");
  return type == "function_call_output" ? "tool" : "assistant";
}

std::string text_of_item(const Json& item) {
  const std::string type = type_of(item);
  if (type == "function_call") {
    return fmt::format("{} {}", text_of(item, "name"), text_of(item, "arguments"));
  }
  return content_text(item.find(type == "function_call_output" ? "output" : "content"));
}

std::string_view id_prefix_of(const Json& item) {
  const std::string type = type_of(item);
  if (type == "function_call") return "fc_";
  if (type == "function_call_output") return "fco_";
  return type == "reasoning" ? "rs_" : "msg_";
}

ApiResult<ListQuery> read_list_query(std::string_view query) {
  ListQuery out;
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
    const size_t equals = pair.find('=');
    const std::string_view name = pair.substr(0, equals);
    const std::string value =
        equals == std::string_view::npos ? "" : percent_decoded(pair.substr(equals + 1));
    if (name == "after") {
      out.after = value;
    } else if (name == "limit") {
      const auto limit = parse_limit(value);
      if (!limit) {
        return bad_param("limit", fmt::format("Invalid 'limit': it must be 1 to {}, not '{}'.",
                                              kMostListed, formats::printable(value)));
      }
      out.limit = *limit;
    } else if (name == "order") {
      if (value != "asc" && value != "desc") {
        return bad_param("order", fmt::format("Invalid 'order': it must be asc or desc, not '{}'.",
                                              formats::printable(value)));
      }
      out.ascending = value == "asc";
    }
  }
  return out;
}

ApiResult<Json> list_json(std::vector<StoredItem> items, const ListQuery& query) {
  if (!query.ascending) std::ranges::reverse(items);
  auto begin = items.begin();
  if (!query.after.empty()) {
    begin = std::ranges::find(items, query.after, &StoredItem::id);
    if (begin == items.end()) {
      return bad_param("after", fmt::format("Invalid 'after': there is no item '{}' here.",
                                            formats::printable(query.after)));
    }
    ++begin;
  }
  const auto left = static_cast<size_t>(items.end() - begin);
  const size_t count = std::min(left, query.limit);
  Json data(Json::Array{});
  for (size_t i = 0; i < count; ++i) data.push_back(item_json(begin[static_cast<ptrdiff_t>(i)]));
  Json json;
  json.set("object", "list");
  json.set("first_id", count > 0 ? Json(begin->id) : Json());
  json.set("last_id", count > 0 ? Json(begin[static_cast<ptrdiff_t>(count) - 1].id) : Json());
  json.set("has_more", left > count);
  json.set("data", std::move(data));
  return json;
}

Json read_metadata(Fields& fields) {
  const Json* given = fields.object("metadata");
  if (given == nullptr) return Json(Json::Object{});
  const Json::Object& all = *given->as_object();
  const bool fine =
      all.size() <= kMostMetadata && std::ranges::all_of(all, [](const Json::Member& member) {
        return member.first.size() <= kMostMetadataName && member.second.is_string() &&
               member.second.as_string()->size() <= kMostMetadataBytes;
      });
  if (!fine) {
    fields.fail("metadata", fmt::format("it takes at most {} texts of {} bytes, under names of at "
                                        "most {}.",
                                        kMostMetadata, kMostMetadataBytes, kMostMetadataName));
  }
  return *given;
}

}  // namespace quire::server
