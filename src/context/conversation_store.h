// conversation_store.h: conversations that outlive the process: trees of messages in SQLite.
//
// Append-only: every message knows the one before it, so that editing and asking again begin a
// branch beside the old one, and compaction adds a view; nothing is lost until the conversation is
// removed. What a call returned survives kill -9 and power loss. Knows nothing of cached keys and
// values: deleting those changes no conversation. Each conversation has an owner, and lookups see
// the owner's own only. Thread rule: any thread, one call at a time inside; several processes may
// share the file.
#pragma once
#include <chrono>
#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "formats/json.h"

namespace quire::context {

class Database;

struct ConversationId {
  int64_t value = -1;
  friend auto operator<=>(const ConversationId&, const ConversationId&) = default;
};
/// Ascends along every branch; never used again.
struct MessageId {
  int64_t value = -1;
  friend auto operator<=>(const MessageId&, const MessageId&) = default;
};
struct ViewId {
  int64_t value = -1;
  friend auto operator<=>(const ViewId&, const ViewId&) = default;
};

/// Who the command line is.
inline constexpr std::string_view kLocalOwner = "local";
/// Of a message that was erased.
inline constexpr std::string_view kErasedRole = "erased";

struct NewMessage {
  std::string role;
  std::string content;          // its text, which is searched; "" where there is none
  formats::Json fields;         // an object with what else it holds (tool_calls), or null
  std::vector<TokenId> tokens;  // of a generated answer, as they were chosen
  std::string model;            // that generated it
  std::string handle = {};      // by which find_message() finds it; "" for none
};

struct StoredMessage {
  MessageId id;
  std::optional<MessageId> parent;
  int64_t created_ms = 0;  // since 1970
  NewMessage message;
};

struct ConversationInfo {
  ConversationId id;
  std::string handle;  // "conv_" and 32 random digits: its name for other programs
  std::string name;    // unique among its owner's; "" for none
  formats::Json metadata;
  int64_t created_ms = 0;
  int64_t changed_ms = 0;
  std::optional<MessageId> head;  // the last message of the branch that is gone on with
  int64_t messages = 0;           // on all branches
  int64_t branches = 0;           // messages that none follows
};

struct SearchHit {
  ConversationId conversation;
  std::string conversation_name, conversation_handle;
  StoredMessage message;
};

/// What a branch up to `head` is sent as: messages, and texts that stand for several of them.
struct View {
  struct Item {
    MessageId first, last;               // the same for a message that stands as it is
    std::optional<std::string> summary;  // in place of first to last
  };
  ViewId id;
  MessageId head;
  std::string policy;  // that made it
  int64_t created_ms = 0;
  std::vector<Item> items;
};

class ConversationStore {
 public:
  using Clock = std::function<int64_t()>;  // milliseconds since 1970
  /// Other programs' locks are waited for as long as `lock_wait`.
  static Result<std::unique_ptr<ConversationStore>> open(
      const std::string& path, Clock clock = system_clock_ms,
      std::chrono::milliseconds lock_wait = std::chrono::seconds(10));
  static int64_t system_clock_ms();
  ~ConversationStore();
  const std::string& path() const;

  /// kUsage if the owner has one of that name.
  Result<ConversationInfo> create(std::string_view owner, const std::string& name,
                                  const formats::Json& metadata);
  using Found = std::optional<ConversationInfo>;
  Result<Found> find(std::string_view owner, std::string_view name);
  Result<Found> find_by_handle(std::string_view owner, std::string_view handle);
  /// Last changed first.
  Result<std::vector<ConversationInfo>> list(std::string_view owner);
  Result<void> set_metadata(ConversationId id, const formats::Json& metadata);
  /// With all branches and views; what it held is wiped from the file.
  Result<void> remove(ConversationId id);

  enum class GoOn : uint8_t { kWithTheLast, kAsBefore };
  /// Adds messages one after the other behind `parent` (none: at the beginning), and goes on with
  /// the last unless `go_on` says otherwise: together or not at all. kUsage if `parent` is no
  /// message of this conversation.
  Result<std::vector<MessageId>> append(ConversationId id, std::optional<MessageId> parent,
                                        std::span<const NewMessage> messages,
                                        GoOn go_on = GoOn::kWithTheLast);
  /// Goes on with another branch, or shorter with this one.
  Result<void> set_head(ConversationId id, std::optional<MessageId> head);
  /// From the first message to `head`. kUsage if `head` is no message of this conversation.
  Result<std::vector<StoredMessage>> path(ConversationId id, std::optional<MessageId> head);
  /// All messages of all branches, oldest first.
  Result<std::vector<StoredMessage>> all_messages(ConversationId id);
  /// A new conversation that begins with the messages up to `at`; the two share nothing.
  Result<ConversationInfo> fork(std::string_view owner, ConversationId id, const std::string& name,
                                std::optional<MessageId> at);

  /// Messages that hold all terms of `query`, best first. kUsage if it has none.
  Result<std::vector<SearchHit>> search(std::string_view owner, std::string_view query,
                                        int64_t limit);

  /// Another name for a message, such as a response's id; it goes with the message.
  Result<void> set_handle(std::string_view owner, const std::string& handle, MessageId message);
  struct Place {
    ConversationId conversation;
    MessageId message;
  };
  Result<std::optional<Place>> find_message(std::string_view owner, std::string_view handle);

  /// What a message was is wiped from the file, with its handles and all views that show or
  /// summarize it; an empty one of the role kErasedRole stays in its place.
  Result<void> erase(ConversationId id, std::span<const MessageId> messages);

  /// Compaction: adds a view, deletes nothing. Items in order, all on the path to `view.head`.
  Result<ViewId> add_view(ConversationId id, const View& view);
  /// The newest view of a beginning of the path to `head`, if there is one.
  Result<std::optional<View>> view_for(ConversationId id, MessageId head);
  /// Undoes a compaction.
  Result<void> drop_view(ViewId id);

 private:
  ConversationStore(std::unique_ptr<Database> database, Clock clock);
  Result<Found> find_where(std::string_view condition, std::string_view owner,
                           std::string_view value);
  Result<ConversationInfo> create_locked(std::string_view owner, const std::string& name,
                                         const formats::Json& metadata);
  Result<std::vector<MessageId>> append_locked(ConversationId id, std::optional<MessageId> parent,
                                               std::span<const NewMessage> messages, GoOn go_on);
  Result<void> insert_handle(ConversationId id, const std::string& handle, MessageId message);
  Result<void> insert_view_items(ConversationId id, ViewId view, std::span<const View::Item> items);
  Result<std::vector<StoredMessage>> path_locked(ConversationId id, std::optional<MessageId> head);
  Result<void> check_in(ConversationId id, std::optional<MessageId> message);

  std::mutex mutex_;  // guards database_
  const std::unique_ptr<Database> database_;
  const Clock clock_;
};

/// A name that a person can type and a terminal can show. kUsage says what is wrong.
Result<void> check_conversation_name(std::string_view name);

}  // namespace quire::context
