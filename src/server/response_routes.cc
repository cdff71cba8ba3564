// GET and DELETE /v1/responses/{id}, GET /v1/responses/{id}/input_items: responses that are stored.
#include <fmt/format.h>

#include "formats/printable.h"
#include "server/epochs.h"
#include "server/routes.h"
#include "server/stored_responses.h"

namespace quire::server {
namespace {

using formats::Json;

/// The same for an id that is nobody's and for another key's.
ApiError no_response(const std::string& id) {
  return not_found(fmt::format("Response with id '{}' not found.", formats::printable(id)));
}

}  // namespace

void handle_response(const Call& call) {
  if (call.exchange->request().query.find("stream=true") != std::string::npos) {
    return reply(call, bad_param("stream", "A stored response is not streamed again."));
  }
  using Found = std::optional<Json>;
  call.serving.store()->ask<Found>(
      [call](ConversationStore& store) {
        return find_response(store, call.owner, call.captures.front());
      },
      [call](ApiResult<Found> found) {
        if (!found.ok()) return reply(call, found.error());
        if (!*found) return reply(call, no_response(call.captures.front()));
        reply(call, **found);
      });
}

void handle_delete_response(const Call& call) {
  call.serving.store()->ask<bool>(
      [call](ConversationStore& store) -> Result<bool> {
        const std::string& id = call.captures.front();
        QUIRE_TRY(const auto place, store.find_message(call.owner, id));
        if (place) call.serving.epochs()->cancel(place->conversation);
        return delete_response(store, call.owner, id);
      },
      [call](ApiResult<bool> deleted) {
        const std::string& id = call.captures.front();
        if (!deleted.ok()) return reply(call, deleted.error());
        if (!*deleted) return reply(call, no_response(id));
        Json json;
        json.set("id", id);
        json.set("object", "response.deleted");
        json.set("deleted", true);
        reply(call, json);
      });
}

void handle_response_input_items(const Call& call) {
  ApiResult<ListQuery> query = read_list_query(call.exchange->request().query);
  if (!query.ok()) return reply(call, query.error());
  using Found = std::optional<std::vector<StoredItem>>;
  call.serving.store()->ask<Found>(
      [call](ConversationStore& store) {
        return input_of_response(store, call.owner, call.captures.front());
      },
      [call, query = *query](ApiResult<Found> found) {
        if (!found.ok()) return reply(call, found.error());
        if (!*found) return reply(call, no_response(call.captures.front()));
        ApiResult<Json> list = list_json(**std::move(found), query);
        if (!list.ok()) return reply(call, list.error());
        reply(call, *list);
      });
}

}  // namespace quire::server
