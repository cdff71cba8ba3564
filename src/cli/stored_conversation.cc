#include "cli/stored_conversation.h"

#include <fmt/format.h>

#include <algorithm>

namespace quire::cli {
namespace {

using context::ConversationStore;
using context::StoredMessage;
using formats::Json;

bool is_same(const StoredMessage& stored, const StoredConversation::Message& message) {
  return stored.message.role == message.role && stored.message.content == message.content &&
         stored.message.tokens == message.tokens;
}

}  // namespace

StoredConversation::StoredConversation(std::unique_ptr<ConversationStore> store,
                                       context::ConversationInfo info, std::string model)
    : store_(std::move(store)), info_(std::move(info)), model_(std::move(model)) {}

Result<StoredConversation> StoredConversation::open(std::unique_ptr<ConversationStore> store,
                                                    const std::string& name, std::string model) {
  QUIRE_TRY_VOID(context::check_conversation_name(name));
  QUIRE_TRY(ConversationStore::Found found, store->find(context::kLocalOwner, name));
  if (!found) {
    QUIRE_TRY(found, store->create(context::kLocalOwner, name, Json(Json::Object{})));
  }
  StoredConversation conversation(std::move(store), *std::move(found), std::move(model));
  const context::ConversationInfo& info = conversation.info_;
  QUIRE_TRY(conversation.branch_, conversation.store_->path(info.id, info.head));
  return conversation;
}

Result<std::vector<StoredConversation::Message>> StoredConversation::messages() const {
  std::vector<Message> messages;
  for (const StoredMessage& stored : branch_) {
    if (!stored.message.fields.is_null()) {
      return Error{ErrorCode::kUnsupported,
                   fmt::format("message {} of '{}' is more than a text (tool calls, say), which "
                               "cannot be gone on with here; 'quire history export' shows it",
                               stored.id.value, info_.name)};
    }
    messages.push_back({stored.message.role, stored.message.content, stored.message.tokens});
  }
  return messages;
}

size_t StoredConversation::common(std::span<const Message> messages) const {
  size_t common = 0;
  while (common < std::min(branch_.size(), messages.size()) &&
         is_same(branch_[common], messages[common])) {
    ++common;
  }
  return common;
}

Result<void> StoredConversation::keep(std::span<const Message> messages) {
  const size_t common = this->common(messages);
  const auto parent = common > 0 ? std::optional(branch_[common - 1].id) : std::nullopt;
  std::vector<StoredMessage> added;
  std::vector<context::NewMessage> fresh;
  for (const Message& message : messages.subspan(common)) {
    fresh.push_back({.role = message.role,
                     .content = message.content,
                     .fields = {},
                     .tokens = message.tokens,
                     .model = message.tokens.empty() ? "" : model_});
  }
  if (!fresh.empty()) {
    QUIRE_TRY(const auto ids, store_->append(info_.id, parent, fresh));
    for (size_t i = 0; i < ids.size(); ++i) {
      added.push_back({.id = ids[i], .parent = std::nullopt, .created_ms = 0, .message = fresh[i]});
    }
  } else if (common < branch_.size()) {
    QUIRE_TRY_VOID(store_->set_head(info_.id, parent));
  }
  branch_.resize(common);
  std::ranges::move(added, std::back_inserter(branch_));
  return {};
}

Result<std::optional<LogView>> StoredConversation::view(std::span<const Message> messages) {
  const size_t known = common(messages);
  if (known == 0) return std::optional<LogView>();
  QUIRE_TRY(const auto stored, store_->view_for(info_.id, branch_[known - 1].id));
  if (!stored) return std::optional<LogView>();
  const auto index_of = [&](context::MessageId id) {
    const auto found = std::ranges::find(branch_, id, &StoredMessage::id);
    return static_cast<size_t>(found - branch_.begin());
  };
  LogView view{.id = stored->id,
               .policy = stored->policy,
               .covered = index_of(stored->head) + 1,
               .items = {}};
  for (const context::View::Item& item : stored->items) {
    view.items.push_back({index_of(item.first), index_of(item.last), item.summary});
    if (view.items.back().first > view.items.back().last ||
        view.items.back().last >= view.covered) {
      return Error{ErrorCode::kBadFile,
                   fmt::format("view {} of '{}' names a message that is not on its branch",
                               stored->id.value, info_.name)};
    }
  }
  return std::optional(std::move(view));
}

Result<void> StoredConversation::add_view(LogView& view, std::span<const Message> messages) {
  const std::span<const Message> covered = messages.first(view.covered);
  if (common(covered) < covered.size()) QUIRE_TRY_VOID(keep(covered));
  context::View stored{.id = {},
                       .head = branch_[view.covered - 1].id,
                       .policy = view.policy,
                       .created_ms = 0,
                       .items = {}};
  for (const LogView::Item& item : view.items) {
    stored.items.push_back({branch_[item.first].id, branch_[item.last].id, item.text});
  }
  QUIRE_TRY(view.id, store_->add_view(info_.id, stored));
  return {};
}

std::optional<context::MessageId> StoredConversation::head() const {
  return branch_.empty() ? std::nullopt : std::optional(branch_.back().id);
}

}  // namespace quire::cli
