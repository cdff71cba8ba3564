// Views, which compaction adds, and the removal of a conversation with all that hangs on it.
#include "context/conversation_store.h"
#include "context/search_text.h"
#include "context/sqlite.h"

namespace quire::context {
namespace {

/// Takes the selected messages (id, content), which must be in it, out of the index, which keeps no
/// text and so is told what to forget.
Result<void> forget_text(const Database& database, Statement& select) {
  QUIRE_TRY(Statement forget,
            database.prepare("INSERT INTO message_text(message_text, rowid, words, bigrams) "
                             "VALUES('delete', ?, ?, ?)"));
  for (;;) {
    QUIRE_TRY(const bool row, select.step());
    if (!row) return {};
    const SearchText text = search_text(select.text(1));
    forget.bind(1, select.integer(0)).bind(2, std::string_view(text.words));
    QUIRE_TRY_VOID(forget.bind(3, std::string_view(text.bigrams)).run());
  }
}

/// Makes a commit leave nothing behind of what it deleted.
Result<void> commit_wiped(const Database& database, Transaction& transaction) {
  // Merged segments hold no word of what is gone.
  QUIRE_TRY_VOID(database.execute("INSERT INTO message_text(message_text) VALUES('optimize')"));
  QUIRE_TRY_VOID(transaction.commit());
  // The log still holds old pages; another process that reads may keep it.
  return database.execute("PRAGMA wal_checkpoint(TRUNCATE)");
}

}  // namespace

Result<void> ConversationStore::remove(ConversationId id) {
  const std::lock_guard lock(mutex_);
  QUIRE_TRY_VOID(database_->execute("PRAGMA secure_delete=ON"));
  QUIRE_TRY(Transaction transaction, Transaction::begin(*database_));
  QUIRE_TRY(Statement texts,
            database_->prepare("SELECT id, content FROM messages WHERE conversation = ? AND role "
                               "<> ?"));
  QUIRE_TRY_VOID(forget_text(*database_, texts.bind(1, id.value).bind(2, kErasedRole)));
  for (const std::string_view sql :
       {"DELETE FROM view_items WHERE view IN (SELECT id FROM views WHERE conversation = ?)",
        "DELETE FROM views WHERE conversation = ?",
        "DELETE FROM handles WHERE message IN (SELECT id FROM messages WHERE conversation = ?)",
        "UPDATE conversations SET head = NULL WHERE id = ?",
        // A message goes before the one it follows.
        "UPDATE messages SET parent = NULL WHERE conversation = ?",
        "DELETE FROM messages WHERE conversation = ?", "DELETE FROM conversations WHERE id = ?"}) {
    QUIRE_TRY(Statement statement, database_->prepare(sql));
    QUIRE_TRY_VOID(statement.bind(1, id.value).run());
  }
  return commit_wiped(*database_, transaction);
}

Result<void> ConversationStore::erase(ConversationId id, std::span<const MessageId> messages) {
  const std::lock_guard lock(mutex_);
  QUIRE_TRY_VOID(database_->execute("PRAGMA secure_delete=ON"));
  QUIRE_TRY(Transaction transaction, Transaction::begin(*database_));
  for (const MessageId message : messages) {
    QUIRE_TRY_VOID(check_in(id, message));
    QUIRE_TRY(Statement text, database_->prepare("SELECT id, content FROM messages WHERE id = ? "
                                                 "AND role <> ?"));
    QUIRE_TRY_VOID(forget_text(*database_, text.bind(1, message.value).bind(2, kErasedRole)));
    // What a view's summary says of it goes too.
    QUIRE_TRY(Statement views,
              database_->prepare("DELETE FROM view_items WHERE view IN (SELECT view FROM "
                                 "view_items WHERE ?1 BETWEEN first AND last AND view IN (SELECT "
                                 "id FROM views WHERE conversation = ?2))"));
    QUIRE_TRY_VOID(views.bind(1, message.value).bind(2, id.value).run());
    QUIRE_TRY(Statement blank, database_->prepare("UPDATE messages SET role = ?, content = '', "
                                                  "fields = NULL, tokens = NULL WHERE id = ?"));
    QUIRE_TRY_VOID(blank.bind(1, kErasedRole).bind(2, message.value).run());
    QUIRE_TRY(Statement handles, database_->prepare("DELETE FROM handles WHERE message = ?"));
    QUIRE_TRY_VOID(handles.bind(1, message.value).run());
  }
  QUIRE_TRY(Statement empty,
            database_->prepare("DELETE FROM views WHERE conversation = ? AND NOT EXISTS (SELECT 1 "
                               "FROM view_items i WHERE i.view = views.id)"));
  QUIRE_TRY_VOID(empty.bind(1, id.value).run());
  return commit_wiped(*database_, transaction);
}

Result<ViewId> ConversationStore::add_view(ConversationId id, const View& view) {
  const std::lock_guard lock(mutex_);
  QUIRE_TRY(Transaction transaction, Transaction::begin(*database_));
  QUIRE_TRY_VOID(check_in(id, view.head));
  QUIRE_TRY(Statement insert,
            database_->prepare("INSERT INTO views(conversation, head, policy, active, created_ms) "
                               "VALUES(?, ?, ?, 1, ?)"));
  insert.bind(1, id.value).bind(2, view.head.value).bind(3, std::string_view(view.policy));
  QUIRE_TRY_VOID(insert.bind(4, clock_()).run());
  const ViewId added{database_->last_row_id()};
  QUIRE_TRY_VOID(insert_view_items(id, added, view.items));
  QUIRE_TRY_VOID(transaction.commit());
  return added;
}

Result<void> ConversationStore::insert_view_items(ConversationId id, ViewId view,
                                                  std::span<const View::Item> items) {
  QUIRE_TRY(Statement insert,
            database_->prepare("INSERT INTO view_items(view, position, first, last, summary) "
                               "VALUES(?, ?, ?, ?, ?)"));
  int64_t position = 0;
  for (const View::Item& item : items) {
    QUIRE_TRY_VOID(check_in(id, item.first));
    QUIRE_TRY_VOID(check_in(id, item.last));
    insert.bind(1, view.value).bind(2, position++).bind(3, item.first.value);
    QUIRE_TRY_VOID(insert.bind(4, item.last.value).bind(5, item.summary).run());
  }
  return {};
}

Result<std::optional<View>> ConversationStore::view_for(ConversationId id, MessageId head) {
  const std::lock_guard lock(mutex_);
  QUIRE_TRY(Statement select,
            database_->prepare(
                "WITH RECURSIVE up(id, parent) AS (SELECT id, parent FROM messages WHERE id = ? "
                "UNION SELECT n.id, n.parent FROM messages n JOIN up ON n.id = up.parent) "
                "SELECT v.id, v.head, v.policy, v.created_ms FROM views v JOIN up ON up.id = "
                "v.head WHERE v.conversation = ? AND v.active ORDER BY v.id DESC LIMIT 1"));
  QUIRE_TRY(const bool found, select.bind(1, head.value).bind(2, id.value).step());
  if (!found) return std::optional<View>();
  View view{.id = {select.integer(0)},
            .head = {select.integer(1)},
            .policy = select.text(2),
            .created_ms = select.integer(3),
            .items = {}};
  QUIRE_TRY(Statement items, database_->prepare("SELECT first, last, summary FROM view_items WHERE "
                                                "view = ? ORDER BY position"));
  items.bind(1, view.id.value);
  for (;;) {
    QUIRE_TRY(const bool row, items.step());
    if (!row) return std::optional(std::move(view));
    view.items.push_back({.first = {items.integer(0)},
                          .last = {items.integer(1)},
                          .summary = items.optional_text(2)});
  }
}

Result<void> ConversationStore::drop_view(ViewId id) {
  const std::lock_guard lock(mutex_);
  QUIRE_TRY(Statement update, database_->prepare("UPDATE views SET active = 0 WHERE id = ?"));
  return update.bind(1, id.value).run();
}

}  // namespace quire::context
