#include "cli/compaction.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/byte_size.h"

namespace quire::cli {
namespace {

using context::window::Draft;
using context::window::Fitted;
using context::window::KeepPlan;
using context::window::Planner;
using context::window::Policy;
using context::window::Treatment;
using context::window::WindowRequest;
using formats::Json;

/// Those whose cut can be kept for the turns to come: the others depend on the question.
bool makes_views(Policy policy) {
  return policy == Policy::kTruncateLeft || policy == Policy::kHeadTail ||
         policy == Policy::kSummarize || policy == Policy::kAuto;
}

std::string content_of(const Json& message) {
  return context::window::content_text(message).value_or("");
}

/// Joins runs of the log that a summary stands for, and lists what stands.
class ViewBuilder {
 public:
  ViewBuilder(const SeenLog& seen, const Draft& draft, const Fitted& fitted)
      : seen_(seen), draft_(draft), fitted_(fitted) {
    for (size_t i = 0; i < fitted.insertion_ids.size(); ++i) {
      if (fitted.insertion_ids[i] == "summary") summary_ = fitted.chat.insertions[i].text;
    }
  }

  /// Of what stands before the message `question`, as it is seen.
  LogView build(size_t question) {
    LogView view;
    view.covered = seen_.messages[question].index;
    size_t sent = 0;
    for (size_t m = 0; m < question; ++m) {
      if (draft_.stands(static_cast<int32_t>(m))) {
        keep(view, m, (*fitted_.chat.messages.as_array())[sent++]);
      } else if (draft_.messages[m].treatment == Treatment::kSummarize) {
        summarize(view, seen_.messages[m]);
      } else {
        summarizing_ = false;
      }
    }
    if (const auto& before = seen_.messages[question].before) view.items.push_back(*before);
    return view;
  }

 private:
  void keep(LogView& view, size_t m, const Json& sent) {
    summarizing_ = false;
    const SeenMessage& seen = seen_.messages[m];
    const bool changed = draft_.messages[m].treatment != Treatment::kKeep ||
                         draft_.messages[m].without_thinking || seen.changed;
    if (changed) {
      view.items.push_back({seen.index, seen.index, content_of(sent)});
      return;
    }
    if (seen.before) view.items.push_back(*seen.before);
    view.items.push_back({seen.index, seen.index, std::nullopt});
  }

  void summarize(LogView& view, const SeenMessage& seen) {
    const size_t first = seen.before ? seen.before->first : seen.index;
    if (summarizing_) {
      view.items.back().last = seen.index;
    } else if (!summary_.empty()) {
      view.items.push_back({first, seen.index, std::exchange(summary_, {})});
      summarizing_ = true;
    }
  }

  const SeenLog& seen_;
  const Draft& draft_;
  const Fitted& fitted_;
  std::string summary_;
  bool summarizing_ = false;
};

/// Whether more than the question is cut, which is this turn's alone.
bool shortens_history(const Draft& draft, size_t question) {
  const auto history = std::span(draft.messages).first(question);
  return std::ranges::any_of(history, [](const Draft::Message& message) {
    return message.treatment != Treatment::kKeep || message.without_thinking;
  });
}

/// Nothing where no plan shortens the log.
Result<std::optional<LogView>> compacted(StoredWindow& window, const SeenLog& seen) {
  WindowRequest request;
  request.chat = seen.request;
  request.contexts.resize(seen.messages.size());
  request.policy = window.policy;
  request.policy.pins = seen.pins(window.pinned);
  const context::window::Limits low = context::window::compacted(window.limits, request.policy);
  QUIRE_TRY(const auto planner, Planner::create(window.text, std::move(request)));
  KeepPlan plan = planner->plan(low);
  if (plan.status == KeepPlan::Status::kRefused) plan = planner->plan(window.limits);
  if (plan.status != KeepPlan::Status::kChanged) return std::optional<LogView>();
  QUIRE_TRY(const Fitted fitted, context::window::carry_out(*planner, plan, window.summarizer));
  const auto question = static_cast<size_t>(planner->anatomy().question);
  if (!shortens_history(plan.draft, question)) return std::optional<LogView>();
  LogView view = ViewBuilder(seen, plan.draft, fitted).build(question);
  view.policy = context::window::name(window.policy.policy);
  for (const std::string& note : fitted.report.notes) window.output.remark(note);
  return std::optional(std::move(view));
}

}  // namespace

std::string SeenLog::renamed(const std::string& part) const {
  const size_t mark = part.find('#');
  const auto number = mark == std::string::npos ? std::nullopt : parse_int(part.substr(mark + 1));
  if (!number || *number < 0 || *number >= static_cast<int64_t>(messages.size())) return part;
  return fmt::format("{}#{}", part.substr(0, mark), messages[static_cast<size_t>(*number)].index);
}

std::vector<std::string> SeenLog::pins(const std::set<size_t>& pinned) const {
  std::vector<std::string> pins;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (pinned.contains(messages[i].index)) pins.push_back(std::to_string(i));
  }
  return pins;
}

SeenLog seen_log(context::ChatRequest log, const LogView* view, const std::set<size_t>& left_out) {
  SeenLog seen;
  Json::Array& all = *log.messages.as_array();
  Json::Array sent;
  std::optional<LogView::Item> before;
  const auto add = [&](size_t index, const std::optional<std::string>& text) {
    if (left_out.contains(index)) return;
    Json message = std::move(all[index]);
    if (text) context::window::set_content_text(message, *text);
    SeenMessage entry{.index = index, .changed = text.has_value(), .before = {}};
    if (before && context::window::role_of(message) == "user") {
      context::window::set_content_text(message, *before->text + content_of(message));
      entry.before = std::exchange(before, std::nullopt);
    }
    sent.push_back(std::move(message));
    seen.messages.push_back(std::move(entry));
  };
  for (size_t i = 0; view != nullptr && i < view->items.size(); ++i) {
    const LogView::Item& item = view->items[i];
    if (item.text && item.first < item.last) {
      before = LogView::Item{before ? before->first : item.first, item.last,
                             (before ? *before->text : "") + *item.text};
    } else {
      add(item.last, item.text);
    }
  }
  for (size_t i = view != nullptr ? view->covered : 0; i < all.size(); ++i) add(i, std::nullopt);
  log.messages = Json(std::move(sent));
  seen.request = std::move(log);
  return seen;
}

engine::Conversation::Sent sent_with(std::optional<LogView> view) {
  return [view = std::move(view)](context::ChatRequest log) {
    const bool behind = view && view->covered <= log.messages.as_array()->size();
    return seen_log(std::move(log), behind ? &*view : nullptr, {}).request;
  };
}

Result<SeenLog> seen_of_stored(StoredWindow& window, const context::ChatRequest& log,
                               std::span<const StoredConversation::Message> messages) {
  QUIRE_TRY(std::optional<LogView> view, window.stored.view(messages));
  SeenLog seen = seen_log(log, view ? &*view : nullptr, window.left_out);
  if (!makes_views(window.policy.policy)) return seen;
  QUIRE_TRY(const engine::Prompt prompt, window.render(seen.request));
  const auto tokens = static_cast<int64_t>(prompt.tokens.size());
  if (tokens <= context::window::budget_of(window.limits, window.policy).usable) return seen;
  QUIRE_TRY(std::optional<LogView> shorter, compacted(window, seen));
  if (!shorter) return seen;
  const Result<void> stored = window.stored.add_view(*shorter, messages);
  if (!stored.ok()) {
    window.output.complaint(stored.error().message + "; the log was not compacted");
    return seen;
  }
  SeenLog compact = seen_log(log, &*shorter, window.left_out);
  QUIRE_TRY(const engine::Prompt left, window.render(compact.request));
  window.output.remark(fmt::format(
      "compacted by {}: {} of {} tokens are sent from now on; the log keeps every message "
      "('quire history show {}'; --view shows what is sent), and /undo v{} sends them again",
      shorter->policy, format_count(static_cast<int64_t>(left.tokens.size())), format_count(tokens),
      window.stored.info().name, shorter->id.value));
  return compact;
}

}  // namespace quire::cli
