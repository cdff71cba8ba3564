#include "context/window/grouping.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"

namespace quire::context::window {
namespace {

using formats::Json;

bool is_operator_role(const std::string& role) {
  return role == "system" || role == "developer";
}

bool is_tool_role(const std::string& role) {
  return role == "tool" || role == "function" || role == "ipython";
}

/// Kinds that stand by themselves wherever they are.
bool stands_alone(PartKind kind) {
  return kind == PartKind::kSystem || kind == PartKind::kProject || kind == PartKind::kMemory ||
         kind == PartKind::kRag || kind == PartKind::kState || kind == PartKind::kSummary;
}

Trust trust_of(const std::string& role, PartKind kind) {
  if (kind == PartKind::kRag || kind == PartKind::kMemory) return Trust::kDocument;
  if (kind == PartKind::kToolResult) return Trust::kTool;
  if (is_operator_role(role)) return Trust::kOperator;
  return role == "assistant" ? Trust::kModel : Trust::kUser;
}

Stability stability_of(PartKind kind) {
  switch (kind) {
    case PartKind::kTemplate:
    case PartKind::kTools:
    case PartKind::kSystem:
    case PartKind::kFewShot:
      return Stability::kStatic;
    case PartKind::kProject:
    case PartKind::kMemory:
    case PartKind::kSummary:
    case PartKind::kState:
      return Stability::kSession;
    case PartKind::kHistory:
    case PartKind::kToolResult:
      return Stability::kLog;
    case PartKind::kRag:
    case PartKind::kQuestion:
      return Stability::kVolatile;
  }
  return Stability::kLog;
}

/// What may be done with a part of this kind.
void allow(Part& part) {
  constexpr int64_t kLeastTokens = 64;  // fewer say nothing
  part.min_tokens = kLeastTokens;
  switch (part.kind) {
    case PartKind::kSystem:
    case PartKind::kState:
      part.pin = true;
      break;
    case PartKind::kProject:
      part.truncate = Truncate::kHeadTail;
      break;
    case PartKind::kMemory:
      part.droppable = true;
      part.truncate = Truncate::kHeadTail;
      break;
    case PartKind::kHistory:
      part.droppable = part.summarizable = part.retrievable = true;
      break;
    case PartKind::kToolResult:
      part.droppable = part.summarizable = part.retrievable = true;
      part.truncate = Truncate::kHeadTail;
      break;
    case PartKind::kRag:
      part.droppable = true;
      part.truncate = Truncate::kHead;
      break;
    case PartKind::kFewShot:
    case PartKind::kSummary:
      part.droppable = true;
      break;
    case PartKind::kQuestion:
      part.truncate = Truncate::kHeadTail;
      break;
    case PartKind::kTemplate:
    case PartKind::kTools:
      break;
  }
}

/// The message that waits for an answer: the last that says it is the question, else the last of
/// the user, else the last.
int32_t find_question(const Json::Array& messages, const std::vector<MessageContext>& contexts) {
  std::optional<size_t> of_user;
  for (size_t i = messages.size(); i-- > 0;) {
    if (contexts[i].kind == PartKind::kQuestion) return static_cast<int32_t>(i);
    const bool plain = !contexts[i].kind || contexts[i].kind == PartKind::kHistory;
    if (!of_user && plain && role_of(messages[i]) == "user") of_user = i;
  }
  return static_cast<int32_t>(of_user.value_or(messages.size() - 1));
}

std::string id_of(PartKind kind, size_t index, bool first_system) {
  switch (kind) {
    case PartKind::kQuestion:
      return "question";
    case PartKind::kToolResult:
      return fmt::format("tool#{}", index);
    case PartKind::kSystem:
      return first_system ? "system" : fmt::format("system#{}", index);
    default:
      return fmt::format("{}#{}", name(kind), index);
  }
}

std::string digest_of(const Json& message) {
  DigestBuilder builder;
  builder.add(message.dump());
  const Digest digest = builder.finish();
  return fmt::format("{:016x}{:016x}", digest.high, digest.low);
}

class Grouper {
 public:
  Grouper(const Json::Array& messages, const std::vector<MessageContext>& contexts)
      : messages_(messages), contexts_(contexts) {
    out_.question = find_question(messages, contexts);
  }

  Grouping run() {
    for (size_t i = 0; i < messages_.size(); ++i) {
      Part part = make_part(i);
      place(i, part);
      part.group = out_.group_of_message.back();
      out_.parts.push_back(std::move(part));
    }
    settle_groups();
    return std::move(out_);
  }

 private:
  PartKind kind_of(size_t index) const {
    if (static_cast<int32_t>(index) == out_.question) return PartKind::kQuestion;
    const std::optional<PartKind> given = contexts_[index].kind;
    if (given && *given != PartKind::kQuestion) return *given;
    const std::string role = role_of(messages_[index]);
    // Only what the operator says before the conversation is the system prompt; a remark in its
    // midst ages with the turn it stands in.
    if (is_operator_role(role) && !conversation_began_) return PartKind::kSystem;
    return is_tool_role(role) ? PartKind::kToolResult : PartKind::kHistory;
  }

  Part make_part(size_t index) {
    const MessageContext& context = contexts_[index];
    const std::string role = role_of(messages_[index]);
    Part part;
    part.kind = kind_of(index);
    conversation_began_ |= !stands_alone(part.kind);
    part.id = id_of(part.kind, index, part.kind == PartKind::kSystem && !system_seen_);
    system_seen_ |= part.kind == PartKind::kSystem;
    allow(part);
    part.stability = context.stability.value_or(stability_of(part.kind));
    part.trust = trust_of(role, part.kind);
    part.priority = context.priority.value_or(0);
    // A system message cannot be unpinned: law 4's promise does not depend on a field.
    if (context.pin) part.pin = *context.pin || part.kind == PartKind::kSystem;
    if (!content_text(messages_[index])) part.truncate = Truncate::kNone;
    part.sha = digest_of(messages_[index]);
    part.db_ref = context.db_ref;
    part.handle = context.handle;
    part.message = static_cast<int32_t>(index);
    return part;
  }

  void open(Group::Kind kind) {
    out_.groups.push_back({});
    out_.groups.back().kind = kind;
  }

  bool in(Group::Kind kind) const {
    return !out_.groups.empty() && out_.groups.back().kind == kind;
  }

  /// Opens a group where the message begins one, and puts it into the last.
  void place(size_t index, const Part& part) {
    const std::string role = role_of(messages_[index]);
    if (stands_alone(part.kind)) {
      open(Group::Kind::kLead);
    } else if (part.kind == PartKind::kFewShot) {
      if (!in(Group::Kind::kFewShot) || role == "user") open(Group::Kind::kFewShot);
    } else if (part.kind == PartKind::kQuestion) {
      open(Group::Kind::kOpen);
      question_seen_ = true;
    } else if (question_seen_) {
      const bool begins =
          role == "assistant" || !(in(Group::Kind::kStep) || in(Group::Kind::kOpen));
      if (begins) open(Group::Kind::kStep);
    } else {
      const bool begins = role == "user" && part.kind == PartKind::kHistory;
      if (begins || !in(Group::Kind::kTurn)) open(Group::Kind::kTurn);
    }
    out_.groups.back().messages.push_back(static_cast<int32_t>(index));
    out_.group_of_message.push_back(static_cast<int32_t>(out_.groups.size()) - 1);
  }

  void settle_groups() {
    int32_t last_step = -1;
    for (size_t g = 0; g < out_.groups.size(); ++g) {
      Group& group = out_.groups[g];
      if (group.kind == Group::Kind::kStep) last_step = static_cast<int32_t>(g);
      group.droppable = group.kind != Group::Kind::kOpen;
      group.summarizable = group.kind == Group::Kind::kTurn;
      for (const int32_t message : group.messages) {
        const Part& part = out_.parts[message];
        group.droppable = group.droppable && part.droppable && !part.pin;
        group.summarizable = group.summarizable && part.summarizable && !part.pin;
        group.priority = std::max(group.priority, part.priority);
      }
    }
    // Without its newest call and result an agent would go round in circles.
    if (last_step >= 0) out_.groups[last_step].droppable = false;
  }

  const Json::Array& messages_;
  const std::vector<MessageContext>& contexts_;
  Grouping out_;
  bool conversation_began_ = false;
  bool system_seen_ = false;
  bool question_seen_ = false;
};

}  // namespace

Grouping group_messages(const Json::Array& messages, const std::vector<MessageContext>& contexts) {
  return Grouper(messages, contexts).run();
}

}  // namespace quire::context::window
