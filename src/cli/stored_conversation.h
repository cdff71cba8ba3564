// stored_conversation.h: a named conversation in the store, kept in step with a chat's messages.
//
// A chat changes its messages as it likes: what the store lacks is added behind the last message
// that both have, so that going back, editing and asking again begin branches and nothing is lost.
// A failed write is made up for by the next one. Use from one thread.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "context/conversation_store.h"
#include "engine/conversation.h"

namespace quire::cli {

/// What a log is sent as: messages by their index, and texts in place of some of them.
struct LogView {
  struct Item {
    size_t first = 0, last = 0;  // the same for one message
    std::optional<std::string> text;
  };
  context::ViewId id;
  std::string policy;       // that made it
  size_t covered = 0;       // messages before it are sent as `items`, the others as they are
  std::vector<Item> items;  // in order
};

class StoredConversation {
 public:
  using Message = engine::Conversation::Message;

  /// The conversation of that name, or a new one. `model` is noted with generated answers.
  static Result<StoredConversation> open(std::unique_ptr<context::ConversationStore> store,
                                         const std::string& name, std::string model);

  const context::ConversationInfo& info() const { return info_; }
  /// Of the branch that was gone on with last. kUnsupported if a message is more than a text.
  Result<std::vector<Message>> messages() const;
  /// Makes `messages` the branch to go on with; durable when it returns. On an error the store is
  /// as it was.
  Result<void> keep(std::span<const Message> messages);
  /// The newest view of a beginning of `messages`, if there is one.
  Result<std::optional<LogView>> view(std::span<const Message> messages);
  /// Stores a view of the messages before `view.covered`, at least one, and sets its id.
  Result<void> add_view(LogView& view, std::span<const Message> messages);
  /// Messages that a view covered are sent again.
  Result<void> drop_view(context::ViewId id) { return store_->drop_view(id); }
  /// The last message of the branch.
  std::optional<context::MessageId> head() const;

 private:
  StoredConversation(std::unique_ptr<context::ConversationStore> store,
                     context::ConversationInfo info, std::string model);
  /// How many of the stored branch's messages `messages` begins with.
  size_t common(std::span<const Message> messages) const;

  std::unique_ptr<context::ConversationStore> store_;
  context::ConversationInfo info_;
  std::string model_;
  std::vector<context::StoredMessage> branch_;
};

}  // namespace quire::cli
