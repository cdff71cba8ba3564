// stored_conversation.h: a named conversation in the store, kept in step with a chat's messages.
//
// A chat changes its messages as it likes: what the store lacks is added behind the last message
// that both have, so that going back, editing and asking again begin branches and nothing is lost.
// A failed write is made up for by the next one. Use from one thread.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "context/conversation_store.h"
#include "engine/conversation.h"

namespace quire::cli {

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
  /// The last message of the branch.
  std::optional<context::MessageId> head() const;

 private:
  StoredConversation(std::unique_ptr<context::ConversationStore> store,
                     context::ConversationInfo info, std::string model);

  std::unique_ptr<context::ConversationStore> store_;
  context::ConversationInfo info_;
  std::string model_;
  std::vector<context::StoredMessage> branch_;
};

}  // namespace quire::cli
