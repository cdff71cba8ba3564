#include "server/compaction.h"

#include <algorithm>

#include "server/chat_prompt.h"
#include "server/chat_window.h"

namespace quire::server {
namespace {

using context::window::Fitted;
using context::window::KeepPlan;
using context::window::Planner;
using context::window::Policy;
using context::window::WindowPolicy;
using formats::Json;

/// A conversation's messages, and the items that each is made of.
struct Messages {
  Json all = Json(Json::Array{});
  std::vector<std::vector<size_t>> items;  // of each message: indices; none of the instructions
};

std::optional<Messages> messages_of(const Surroundings& around,
                                    const std::vector<HistoryItem>& items) {
  Messages out;
  if (around.instructions) {
    out.all.push_back(system_message(*around.instructions));
    out.items.emplace_back();
  }
  const Json none(Json::Object{});
  Fields fields(none);
  for (size_t i = 0; i < items.size(); ++i) {
    // Reasoning makes no message; a call joins the one before it.
    if (id_prefix_of(items[i].stored.item) == "rs_") continue;
    add_messages(fields, out.all, std::span(&items[i].stored.item, 1), "conversation");
    if (!fields.ok()) return std::nullopt;
    out.items.resize(out.all.as_array()->size());
    out.items.back().push_back(i);
  }
  return out;
}

/// Of a message's items the one that holds its text.
std::optional<size_t> text_item(const std::vector<HistoryItem>& items,
                                const std::vector<size_t>& of_message) {
  for (const size_t i : of_message) {
    if (id_prefix_of(items[i].stored.item) != "fc_") return i;
  }
  return std::nullopt;
}

/// The plan for a whole conversation down to the low watermark; null if there is none.
struct Plan {
  WindowPlan planned;
  KeepPlan keep;
  Fitted fitted;
  size_t lead = 0;  // messages that were added before the conversation's
};

std::optional<Plan> plan_down(const Backend& backend, const Surroundings& around,
                              const Messages& messages) {
  context::window::WindowRequest request;
  request.policy = around.policy;
  if (request.policy.policy == Policy::kReject) request.policy.policy = Policy::kAuto;
  request.policy.step = 0;  // the next cut is a view too: no turn reads everything anew
  const auto limits = context::window::compacted(limits_of(backend), request.policy);
  ChatParams chat = around.chat;
  chat.messages = messages.all;
  auto contexts = context::window::take_contexts(chat.messages);
  if (!contexts.ok()) return std::nullopt;
  request.contexts = *std::move(contexts);
  ApiResult<WindowPlan> planned = plan_chat(backend, chat, request);
  if (!planned.ok()) return std::nullopt;
  KeepPlan keep = planned->planner->plan(limits);
  if (keep.status != KeepPlan::Status::kChanged) return std::nullopt;
  Result<Fitted> fitted = context::window::carry_out(*planned->planner, keep, nullptr);
  if (!fitted.ok()) return std::nullopt;
  const size_t lead = keep.draft.messages.size() - messages.items.size();
  return Plan{std::move(*planned), std::move(keep), *std::move(fitted), lead};
}

/// Says of items what the plan says of messages.
class ViewBuilder {
 public:
  ViewBuilder(const std::vector<HistoryItem>& items, const Messages& messages)
      : items_(items), messages_(messages) {}

  /// False if the plan wrote into a message that has no text of its own.
  bool build(const Plan& plan) {
    const Json::Array& planned = *plan.planned.planner->request().chat.messages.as_array();
    const Json::Array& sent = *plan.fitted.messages.as_array();
    size_t next = 0;
    for (size_t m = 0; m < planned.size(); ++m) {
      const bool stands = plan.keep.draft.stands(static_cast<int32_t>(m));
      const Json* after = stands ? &sent[next++] : nullptr;
      if (m < plan.lead) continue;
      if (!add(m - plan.lead, planned[m], after)) return false;
    }
    return true;
  }

  Compaction take() { return std::move(out_); }

 private:
  static const Json& content_of(const Json& message) {
    static const Json kNone;
    const Json* content = message.find("content");
    return content != nullptr ? *content : kNone;
  }

  bool add(size_t message, const Json& before, const Json* after) {
    const std::vector<size_t>& own = messages_.items[message];
    if (after == nullptr) {
      if (!own.empty() && !first_gone_) first_gone_ = items_[own.front()].first;
      return true;
    }
    const bool changed = content_of(before) != content_of(*after);
    const auto target = text_item(items_, own);
    if (changed) {
      // Tools that were written as text for the template are no item's own words.
      const bool own_words = content_of((*messages_.all.as_array())[message]) == content_of(before);
      if (!target || !own_words || !content_of(*after).is_string()) return false;
    }
    for (const size_t i : own) {
      HistoryItem item = items_[i];
      if (changed && i == *target) {
        item.text = *content_of(*after).as_string();
        set_text(item.stored.item, *item.text);
        // A summary may tell of all that is gone before it.
        item.first = std::min(item.first, first_gone_.value_or(item.first));
      }
      out_.view.items.push_back({.first = item.first, .last = item.last, .summary = item.text});
      out_.items.push_back(std::move(item));
    }
    return true;
  }

  const std::vector<HistoryItem>& items_;
  const Messages& messages_;
  Compaction out_;
  std::optional<context::MessageId> first_gone_;  // of the items that the view leaves out
};

}  // namespace

int64_t high_watermark(const Backend& backend, const WindowPolicy& policy) {
  const auto budget = context::window::budget_of(limits_of(backend), policy);
  return static_cast<int64_t>(static_cast<double>(budget.usable) * policy.watermarks.high);
}

std::optional<Compaction> compact(const Backend& backend, const Surroundings& around,
                                  const History& history) {
  const auto messages = messages_of(around, history.items);
  if (!messages || !history.at) return std::nullopt;
  const auto plan = plan_down(backend, around, *messages);
  if (!plan) return std::nullopt;
  ViewBuilder builder(history.items, *messages);
  if (!builder.build(*plan)) return std::nullopt;
  Compaction compaction = builder.take();
  compaction.view.head = *history.at;
  compaction.view.policy = name(plan->fitted.report.policy);
  return compaction;
}

std::optional<std::vector<TokenId>> beginning_of(const Backend& backend, const Surroundings& around,
                                                 const std::vector<HistoryItem>& items) {
  auto messages = messages_of(around, items);
  if (!messages) return std::nullopt;
  ChatParams chat = around.chat;
  chat.messages = std::move(messages->all);
  if (!context::window::take_contexts(chat.messages).ok()) return std::nullopt;
  if (backend.model.chat_template() == nullptr) return std::nullopt;
  context::ChatRequest request = chat_request(backend.model, chat);
  request.generation_prompt = context::GenerationPrompt::kOmit;
  ApiResult<ChatPrompt> prompt = render_request(backend.model, chat, request);
  if (!prompt.ok()) return std::nullopt;
  return std::move(prompt->prompt.tokens);
}

}  // namespace quire::server
