#include "context/conversation_store.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstring>
#include <random>
#include <type_traits>

#include "base/utf8.h"
#include "context/conversation_schema.h"
#include "context/search_text.h"
#include "context/sqlite.h"

namespace quire::context {
namespace {

using formats::Json;

constexpr size_t kMostNameBytes = 200;

constexpr std::string_view kInfoColumns =
    "c.id, c.handle, c.name, c.metadata, c.created_ms, c.changed_ms, c.head, "
    "(SELECT count(*) FROM messages m WHERE m.conversation = c.id), "
    "(SELECT count(*) FROM messages m WHERE m.conversation = c.id AND NOT EXISTS "
    "(SELECT 1 FROM messages n WHERE n.parent = m.id))";

constexpr std::string_view kMessageColumns =
    "m.id, m.parent, m.created_ms, m.role, m.content, m.fields, m.tokens, m.model";
constexpr int kNumMessageColumns = 8;

template <class Id>
std::optional<int64_t> value_of(std::optional<Id> id) {
  return id ? std::optional(id->value) : std::nullopt;
}

std::optional<MessageId> message_id(std::optional<int64_t> value) {
  return value ? std::optional(MessageId{*value}) : std::nullopt;
}

/// 128 bits that nobody guesses.
std::string new_handle() {
  std::random_device random;
  std::string handle = "conv_";
  for (int i = 0; i < 4; ++i) handle += fmt::format("{:08x}", random());
  return handle;
}

Result<ConversationInfo> read_info(const Statement& row) {
  ConversationInfo info{.id = {row.integer(0)},
                        .handle = row.text(1),
                        .name = row.text(2),
                        .metadata = {},
                        .created_ms = row.integer(4),
                        .changed_ms = row.integer(5),
                        .head = message_id(row.optional_integer(6)),
                        .messages = row.integer(7),
                        .branches = row.integer(8)};
  QUIRE_TRY(info.metadata, Json::parse(row.text(3), "a stored conversation's metadata"));
  return info;
}

std::vector<TokenId> tokens_of(std::string_view bytes) {
  static_assert(std::is_trivially_copyable_v<TokenId>);
  std::vector<TokenId> tokens(bytes.size() / sizeof(TokenId));
  if (!tokens.empty()) std::memcpy(tokens.data(), bytes.data(), tokens.size() * sizeof(TokenId));
  return tokens;
}

Result<StoredMessage> read_message(const Statement& row) {
  StoredMessage stored{.id = {row.integer(0)},
                       .parent = message_id(row.optional_integer(1)),
                       .created_ms = row.integer(2),
                       .message = {.role = row.text(3),
                                   .content = row.text(4),
                                   .fields = {},
                                   .tokens = tokens_of(row.blob(6)),
                                   .model = row.text(7)}};
  if (const auto fields = row.optional_text(5)) {
    QUIRE_TRY(stored.message.fields, Json::parse(*fields, "a stored message's fields"));
  }
  return stored;
}

Result<std::vector<StoredMessage>> read_messages(Statement& rows) {
  std::vector<StoredMessage> messages;
  for (;;) {
    QUIRE_TRY(const bool row, rows.step());
    if (!row) return messages;
    QUIRE_TRY(StoredMessage message, read_message(rows));
    messages.push_back(std::move(message));
  }
}

Error no_such_message(MessageId id) {
  return {ErrorCode::kUsage, fmt::format("the conversation has no message {}", id.value)};
}

}  // namespace

Result<void> check_conversation_name(std::string_view name) {
  if (name.empty()) return Error{ErrorCode::kUsage, "a conversation's name cannot be empty"};
  if (name.size() > kMostNameBytes) {
    return Error{ErrorCode::kUsage,
                 fmt::format("a conversation's name has at most {} bytes", kMostNameBytes)};
  }
  const bool has_control = name.find_first_of(std::string_view(
                               "\0\1\2\3\4\5\6\7\b\t\n\v\f\r\16\17\20\21\22\23\24\25\26\27\30\31"
                               "\32\33\34\35\36\37\177",
                               33)) != std::string_view::npos;
  if (has_control || !utf8_is_valid(name)) {
    return Error{ErrorCode::kUsage,
                 "a conversation's name is UTF-8 text without control characters"};
  }
  return {};
}

ConversationStore::ConversationStore(std::unique_ptr<Database> database, Clock clock)
    : database_(std::move(database)), clock_(std::move(clock)) {}

ConversationStore::~ConversationStore() = default;

const std::string& ConversationStore::path() const {
  return database_->path();
}

int64_t ConversationStore::system_clock_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

Result<std::unique_ptr<ConversationStore>> ConversationStore::open(
    const std::string& path, Clock clock, std::chrono::milliseconds lock_wait) {
  QUIRE_TRY(auto database, Database::open(path, kConversationDatabase, lock_wait));
  return std::unique_ptr<ConversationStore>(
      new ConversationStore(std::move(database), std::move(clock)));
}

Result<ConversationInfo> ConversationStore::create(std::string_view owner, const std::string& name,
                                                   const Json& metadata) {
  const std::lock_guard lock(mutex_);
  return create_locked(owner, name, metadata);
}

Result<ConversationInfo> ConversationStore::create_locked(std::string_view owner,
                                                          const std::string& name,
                                                          const Json& metadata) {
  if (!name.empty()) QUIRE_TRY_VOID(check_conversation_name(name));
  ConversationInfo info{.id = {},
                        .handle = new_handle(),
                        .name = name,
                        .metadata = metadata,
                        .created_ms = clock_(),
                        .changed_ms = 0,
                        .head = std::nullopt};
  info.changed_ms = info.created_ms;
  // Another process may take the name at the same moment: the table decides.
  QUIRE_TRY(Statement insert,
            database_->prepare("INSERT OR IGNORE INTO conversations(owner, handle, name, metadata, "
                               "created_ms, changed_ms) VALUES(?, ?, ?, ?, ?, ?)"));
  insert.bind(1, owner).bind(2, std::string_view(info.handle));
  insert.bind(3, name.empty() ? std::nullopt : std::optional(name));
  insert.bind(4, std::string_view(metadata.dump())).bind(5, info.created_ms);
  QUIRE_TRY_VOID(insert.bind(6, info.changed_ms).run());
  if (database_->changes() == 0) {
    return Error{ErrorCode::kUsage, fmt::format("there is a conversation '{}' already", name)};
  }
  info.id = {database_->last_row_id()};
  return info;
}

Result<ConversationStore::Found> ConversationStore::find_where(std::string_view condition,
                                                               std::string_view owner,
                                                               std::string_view value) {
  const std::lock_guard lock(mutex_);
  QUIRE_TRY(Statement select, database_->prepare(fmt::format(
                                  "SELECT {} FROM conversations c WHERE c.owner = ? AND {}",
                                  kInfoColumns, condition)));
  QUIRE_TRY(const bool row, select.bind(1, owner).bind(2, value).step());
  if (!row) return Found();
  QUIRE_TRY(ConversationInfo info, read_info(select));
  return Found(std::move(info));
}

Result<ConversationStore::Found> ConversationStore::find(std::string_view owner,
                                                         std::string_view name) {
  return find_where("c.name = ?", owner, name);
}

Result<ConversationStore::Found> ConversationStore::find_by_handle(std::string_view owner,
                                                                   std::string_view handle) {
  return find_where("c.handle = ?", owner, handle);
}

Result<std::vector<ConversationInfo>> ConversationStore::list(std::string_view owner) {
  const std::lock_guard lock(mutex_);
  QUIRE_TRY(Statement select,
            database_->prepare(fmt::format("SELECT {} FROM conversations c WHERE c.owner = ? ORDER "
                                           "BY c.changed_ms DESC, c.id DESC",
                                           kInfoColumns)));
  select.bind(1, owner);
  std::vector<ConversationInfo> conversations;
  for (;;) {
    QUIRE_TRY(const bool row, select.step());
    if (!row) return conversations;
    QUIRE_TRY(ConversationInfo info, read_info(select));
    conversations.push_back(std::move(info));
  }
}

Result<void> ConversationStore::set_metadata(ConversationId id, const Json& metadata) {
  const std::lock_guard lock(mutex_);
  QUIRE_TRY(
      Statement update,
      database_->prepare("UPDATE conversations SET metadata = ?, changed_ms = ? WHERE id = ?"));
  return update.bind(1, std::string_view(metadata.dump()))
      .bind(2, clock_())
      .bind(3, id.value)
      .run();
}

Result<void> ConversationStore::check_in(ConversationId id, std::optional<MessageId> message) {
  if (!message) return {};
  QUIRE_TRY(Statement select,
            database_->prepare("SELECT 1 FROM messages WHERE id = ? AND conversation = ?"));
  QUIRE_TRY(const bool found, select.bind(1, message->value).bind(2, id.value).step());
  if (!found) return no_such_message(*message);
  return {};
}

Result<std::vector<MessageId>> ConversationStore::append(ConversationId id,
                                                         std::optional<MessageId> parent,
                                                         std::span<const NewMessage> messages,
                                                         GoOn go_on) {
  const std::lock_guard lock(mutex_);
  QUIRE_TRY(Transaction transaction, Transaction::begin(*database_));
  QUIRE_TRY(std::vector<MessageId> ids, append_locked(id, parent, messages, go_on));
  QUIRE_TRY_VOID(transaction.commit());
  return ids;
}

Result<std::vector<MessageId>> ConversationStore::append_locked(
    ConversationId id, std::optional<MessageId> parent, std::span<const NewMessage> messages,
    GoOn go_on) {
  QUIRE_TRY_VOID(check_in(id, parent));
  QUIRE_TRY(Statement insert,
            database_->prepare("INSERT INTO messages(conversation, parent, role, content, fields, "
                               "tokens, model, created_ms) VALUES(?, ?, ?, ?, ?, ?, ?, ?)"));
  QUIRE_TRY(Statement index,
            database_->prepare("INSERT INTO message_text(rowid, words, bigrams) VALUES(?, ?, ?)"));
  const int64_t now = clock_();
  std::vector<MessageId> ids;
  for (const NewMessage& message : messages) {
    insert.bind(1, id.value).bind(2, value_of(parent)).bind(3, std::string_view(message.role));
    insert.bind(4, std::string_view(message.content));
    insert.bind(5, message.fields.is_null() ? std::nullopt : std::optional(message.fields.dump()));
    insert.bind_blob(6, std::as_bytes(std::span(message.tokens)));
    QUIRE_TRY_VOID(insert.bind(7, std::string_view(message.model)).bind(8, now).run());
    parent = MessageId{database_->last_row_id()};
    ids.push_back(*parent);
    const SearchText text = search_text(message.content);
    index.bind(1, parent->value).bind(2, std::string_view(text.words));
    QUIRE_TRY_VOID(index.bind(3, std::string_view(text.bigrams)).run());
    if (!message.handle.empty()) QUIRE_TRY_VOID(insert_handle(id, message.handle, *parent));
  }
  QUIRE_TRY(Statement update,
            database_->prepare(go_on == GoOn::kWithTheLast
                                   ? "UPDATE conversations SET changed_ms = ?, head = ?3 "
                                     "WHERE id = ?2"
                                   : "UPDATE conversations SET changed_ms = ? WHERE id = ?"));
  update.bind(1, now).bind(2, id.value);
  if (go_on == GoOn::kWithTheLast) update.bind(3, value_of(parent));
  QUIRE_TRY_VOID(update.run());
  if (database_->changes() == 0) {
    return Error{ErrorCode::kNotFound, "the conversation was removed meanwhile"};
  }
  return ids;
}

Result<void> ConversationStore::set_head(ConversationId id, std::optional<MessageId> head) {
  const std::lock_guard lock(mutex_);
  QUIRE_TRY(Transaction transaction, Transaction::begin(*database_));
  QUIRE_TRY_VOID(append_locked(id, head, {}, GoOn::kWithTheLast));
  return transaction.commit();
}

Result<std::vector<StoredMessage>> ConversationStore::path(ConversationId id,
                                                           std::optional<MessageId> head) {
  const std::lock_guard lock(mutex_);
  return path_locked(id, head);
}

Result<std::vector<StoredMessage>> ConversationStore::path_locked(ConversationId id,
                                                                  std::optional<MessageId> head) {
  QUIRE_TRY_VOID(check_in(id, head));
  // UNION, not UNION ALL: a file in which messages follow one another in a circle ends too.
  QUIRE_TRY(Statement select,
            database_->prepare(fmt::format(
                "WITH RECURSIVE up(id, parent) AS (SELECT id, parent FROM messages WHERE id = ? "
                "UNION SELECT n.id, n.parent FROM messages n JOIN up ON n.id = up.parent) "
                "SELECT {} FROM messages m JOIN up ON up.id = m.id ORDER BY m.id",
                kMessageColumns)));
  return read_messages(select.bind(1, value_of(head)));
}

Result<std::vector<StoredMessage>> ConversationStore::all_messages(ConversationId id) {
  const std::lock_guard lock(mutex_);
  QUIRE_TRY(
      Statement select,
      database_->prepare(fmt::format(
          "SELECT {} FROM messages m WHERE m.conversation = ? ORDER BY m.id", kMessageColumns)));
  return read_messages(select.bind(1, id.value));
}

Result<ConversationInfo> ConversationStore::fork(std::string_view owner, ConversationId id,
                                                 const std::string& name,
                                                 std::optional<MessageId> at) {
  const std::lock_guard lock(mutex_);
  QUIRE_TRY(Transaction transaction, Transaction::begin(*database_));
  QUIRE_TRY(const std::vector<StoredMessage> path, path_locked(id, at));
  QUIRE_TRY(ConversationInfo info, create_locked(owner, name, Json(Json::Object{})));
  std::vector<NewMessage> copies;
  for (const StoredMessage& stored : path) copies.push_back(stored.message);
  QUIRE_TRY(const std::vector<MessageId> ids,
            append_locked(info.id, std::nullopt, copies, GoOn::kWithTheLast));
  QUIRE_TRY_VOID(transaction.commit());
  info.messages = static_cast<int64_t>(ids.size());
  info.branches = ids.empty() ? 0 : 1;
  if (!ids.empty()) info.head = ids.back();
  return info;
}

Result<void> ConversationStore::set_handle(std::string_view owner, const std::string& handle,
                                           MessageId message) {
  const std::lock_guard lock(mutex_);
  QUIRE_TRY(Statement insert,
            database_->prepare("INSERT OR REPLACE INTO handles(owner, handle, message) "
                               "VALUES(?, ?, ?)"));
  return insert.bind(1, owner).bind(2, std::string_view(handle)).bind(3, message.value).run();
}

Result<void> ConversationStore::insert_handle(ConversationId id, const std::string& handle,
                                              MessageId message) {
  QUIRE_TRY(Statement insert,
            database_->prepare("INSERT INTO handles(owner, handle, message) SELECT owner, ?, ? "
                               "FROM conversations WHERE id = ?"));
  return insert.bind(1, std::string_view(handle)).bind(2, message.value).bind(3, id.value).run();
}

Result<std::optional<ConversationStore::Place>> ConversationStore::find_message(
    std::string_view owner, std::string_view handle) {
  const std::lock_guard lock(mutex_);
  QUIRE_TRY(Statement select,
            database_->prepare("SELECT m.conversation, m.id FROM handles h JOIN messages m ON m.id "
                               "= h.message WHERE h.owner = ? AND h.handle = ?"));
  QUIRE_TRY(const bool row, select.bind(1, owner).bind(2, handle).step());
  if (!row) return std::optional<Place>();
  return std::optional(Place{{select.integer(0)}, {select.integer(1)}});
}

Result<std::vector<SearchHit>> ConversationStore::search(std::string_view owner,
                                                         std::string_view query, int64_t limit) {
  const std::string expression = match_expression(query, MatchTerms::kAll);
  if (expression.empty()) {
    return Error{ErrorCode::kUsage, "there is no letter or digit to search for"};
  }
  const std::lock_guard lock(mutex_);
  QUIRE_TRY(Statement select,
            database_->prepare(fmt::format(
                "SELECT {}, c.id, c.name, c.handle FROM message_text JOIN messages m ON m.id = "
                "message_text.rowid JOIN conversations c ON c.id = m.conversation WHERE "
                "message_text MATCH ? AND c.owner = ? ORDER BY bm25(message_text), m.id LIMIT ?",
                kMessageColumns)));
  select.bind(1, std::string_view(expression)).bind(2, owner).bind(3, limit);
  std::vector<SearchHit> hits;
  for (;;) {
    QUIRE_TRY(const bool row, select.step());
    if (!row) return hits;
    QUIRE_TRY(StoredMessage message, read_message(select));
    hits.push_back({.conversation = {select.integer(kNumMessageColumns)},
                    .conversation_name = select.text(kNumMessageColumns + 1),
                    .conversation_handle = select.text(kNumMessageColumns + 2),
                    .message = std::move(message)});
  }
}

}  // namespace quire::context
