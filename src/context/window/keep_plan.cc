#include "context/window/keep_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "context/window/cut_text.h"

namespace quire::context::window {
namespace {

using formats::Json;

constexpr int64_t kLeastWindow = 1;
constexpr int64_t kMostReserve = 1024;
/// Actions between two prompts that are counted exactly, to estimate the others from.
constexpr size_t kAnchorDistance = 16;
constexpr size_t kMostExcerpts = 24;
constexpr size_t kExcerptBytes = 600;
/// What a summary's seams may add beyond its own tokens.
constexpr int64_t kSummarySeam = 8;

int64_t default_reserve(int64_t window) {
  return std::max(std::min(window / 4, kMostReserve), kLeastWindow);
}

/// Counts drafts, each once.
class Sizes {
 public:
  Sizes(const Sources& sources, const std::vector<Action>& ladder)
      : sources_(sources),
        ladder_(ladder),
        saved_(ladder.size() + 1, 0),
        room_(ladder.size() + 1, 0),
        chunks_(ladder.size() + 1, 0) {
    Draft draft = untouched(sources);
    chunks_[0] = kept_chunk_tokens(sources, draft);
    for (size_t i = 0; i < ladder.size(); ++i) {
      saved_[i + 1] = saved_[i] + ladder[i].saves_at_most;
      apply(sources, ladder[i], draft);
      room_[i + 1] = draft.summary_tokens > 0 ? draft.summary_tokens + kSummarySeam : 0;
      chunks_[i + 1] = kept_chunk_tokens(sources, draft);
    }
  }

  /// Tokens after `count` actions, the summary's room included; nothing if the template refuses.
  std::optional<int64_t> exact(size_t count) {
    const auto known = exact_.find(count);
    if (known != exact_.end()) return known->second;
    const Draft draft = after(sources_, ladder_, count);
    const auto tokens = prompt_tokens(sources_.text.tokenizer, sources_.text.chat_template,
                                      realize(sources_, draft, {}).chat);
    std::optional<int64_t> size;
    if (tokens.ok()) size = *tokens + room_[count];
    return exact_[count] = size;
  }

  /// No more than exact(count), as far as counts are additive: from the whole request.
  int64_t at_least(size_t count) const { return whole() - saved_[count] + room_[count]; }

  /// The same from the last anchor: tighter.
  int64_t at_least_from_anchor(size_t count) {
    for (size_t anchor = count / kAnchorDistance * kAnchorDistance; anchor > 0;
         anchor -= kAnchorDistance) {
      if (const auto size = exact(anchor)) {
        return *size - room_[anchor] - (saved_[count] - saved_[anchor]) + room_[count];
      }
    }
    return at_least(count);
  }

  /// Of the request's chunks, after `count` actions.
  int64_t chunks(size_t count) const { return chunks_[count]; }

  /// Of all that were counted.
  std::optional<int64_t> smallest() const {
    std::optional<int64_t> least;
    for (const auto& [count, size] : exact_) {
      if (size && (!least || *size < *least)) least = size;
    }
    return least;
  }

 private:
  int64_t whole() const { return sources_.anatomy.prompt.count(); }

  const Sources& sources_;
  const std::vector<Action>& ladder_;
  std::vector<int64_t> saved_;  // by the first so many actions, at most
  std::vector<int64_t> room_;   // for the summary after so many actions
  std::vector<int64_t> chunks_;
  std::map<size_t, std::optional<int64_t>> exact_;
};

/// How many actions the shortest plan takes. A template that refuses a conversation, because roles
/// must alternate, extends it to the next boundary.
std::optional<size_t> shortest_that_fits(Sizes& sizes, const std::vector<Action>& ladder,
                                         const KeepPlan& plan) {
  for (size_t count = 1; count <= ladder.size(); ++count) {
    const int64_t most = plan.most_tokens(sizes.chunks(count));
    if (!ladder[count - 1].may_stop || sizes.at_least(count) > most) continue;
    if (sizes.at_least_from_anchor(count) > most) continue;
    const std::optional<int64_t> size = sizes.exact(count);
    if (size && *size <= most) return count;
  }
  // What a template does may not add up; the last word is an exact count.
  const std::optional<int64_t> size = sizes.exact(ladder.size());
  const int64_t most = plan.most_tokens(sizes.chunks(ladder.size()));
  if (!ladder.empty() && size && *size <= most) return ladder.size();
  return std::nullopt;
}

/// Retrieval replaces the whole history at every question, and a question's tail is cut as little
/// as possible.
bool moves_in_steps(Policy policy) {
  return policy != Policy::kReject && policy != Policy::kTruncateRight &&
         policy != Policy::kRetrieve;
}

/// A text in pieces that end at lines where they can.
std::vector<std::string> excerpts_of(std::string_view text) {
  std::vector<std::string> pieces;
  while (!text.empty()) {
    size_t end = text.size();
    if (end > kExcerptBytes) {
      const size_t line = text.rfind('\n', kExcerptBytes);
      const size_t blank = text.rfind(' ', kExcerptBytes);
      end = line != std::string_view::npos && line > kExcerptBytes / 4     ? line + 1
            : blank != std::string_view::npos && blank > kExcerptBytes / 4 ? blank + 1
                                                                           : kExcerptBytes;
      while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
    }
    pieces.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return pieces;
}

/// What of the history the retriever chooses, in the order of the conversation.
std::vector<Chunk> find_excerpts(const Anatomy& anatomy, const Json::Array& messages,
                                 Retriever& retriever) {
  std::vector<Passage> passages;
  for (const Group& group : anatomy.groups) {
    if (!group.droppable || !group.summarizable) continue;
    for (const int32_t m : group.messages) {
      const auto text = content_text(messages[m]);
      if (!text || !anatomy.message_part(m).retrievable) continue;
      for (std::string& piece : excerpts_of(*text)) {
        passages.push_back({m, anatomy.message_part(m).id, std::move(piece)});
      }
    }
  }
  const std::string question = content_text(messages[anatomy.question]).value_or("");
  std::vector<Chunk> found = retriever.find(question, passages, kMostExcerpts);
  std::ranges::stable_sort(found, {}, [](const Chunk& c) { return c.message.value_or(0); });
  return found;
}

}  // namespace

Budget budget_of(const Limits& limits, const WindowPolicy& policy) {
  const bool rejects = policy.policy == Policy::kReject;
  const int64_t usual = rejects ? kLeastWindow : default_reserve(limits.window);
  const int64_t given = std::max(policy.max_tokens.value_or(0), policy.reserve_output.value_or(0));
  int64_t reserve = given > 0 ? given : usual;
  // A maximum that may shrink needs no more than the usual room.
  if (policy.output == Output::kShrink) {
    reserve = policy.reserve_output.value_or(std::min(reserve, usual));
  }
  return {reserve, std::max<int64_t>(limits.window - reserve, 0)};
}

Limits compacted(const Limits& limits, WindowPolicy& policy) {
  const Budget budget = budget_of(limits, policy);
  policy.reserve_output = budget.reserve;
  policy.step = 0;
  Limits low = limits;
  low.window = budget.reserve +
               static_cast<int64_t>(static_cast<double>(budget.usable) * policy.watermarks.low);
  return low;
}

Planner::Planner(const TextModel& text, WindowRequest request, Anatomy anatomy)
    : request_(std::move(request)), anatomy_(std::move(anatomy)) {
  const Json::Array& messages = *request_.chat.messages.as_array();
  sources_ = std::make_unique<Sources>(
      Sources{text, request_, anatomy_, request_.chunks, tool_results(messages)});
}

Result<std::unique_ptr<Planner>> Planner::create(const TextModel& text, WindowRequest request,
                                                 Retriever* retriever) {
  QUIRE_TRY(Anatomy anatomy, take_apart(text, request));
  auto planner =
      std::unique_ptr<Planner>(new Planner(text, std::move(request), std::move(anatomy)));
  if (planner->request_.policy.policy == Policy::kRetrieve) {
    WordRetriever words;
    std::vector<Chunk> excerpts =
        find_excerpts(planner->anatomy_, *planner->request_.chat.messages.as_array(),
                      retriever != nullptr ? *retriever : words);
    std::vector<Chunk>& chunks = planner->sources_->chunks;
    chunks.insert(chunks.begin(), std::make_move_iterator(excerpts.begin()),
                  std::make_move_iterator(excerpts.end()));
  }
  return planner;
}

int64_t KeepPlan::most_tokens(int64_t chunk_tokens) const {
  return std::min(budget.usable, conversation_tokens + chunk_tokens);
}

KeepPlan Planner::plan(const Limits& limits) const {
  KeepPlan plan;
  plan.limits = limits;
  plan.budget = budget_of(limits, request_.policy);
  plan.tokens = plan.tokens_before = anatomy_.prompt.count();
  plan.conversation_tokens = plan.budget.usable;
  plan.draft = untouched(*sources_);
  if (plan.tokens <= plan.budget.usable) return plan;
  const int64_t usable = plan.budget.usable;
  const int64_t step = moves_in_steps(request_.policy.policy)
                           ? std::min(request_.policy.step.value_or(usable / 4), usable)
                           : 0;
  if (step > 0 && shorten(step_for(*sources_, step, usable), plan)) return plan;
  // Where whole steps cannot be taken away, as much is kept as fits.
  shorten({}, plan);
  return plan;
}

bool Planner::shorten(const Step& step, KeepPlan& plan) const {
  const std::vector<Action> ladder = make_ladder(*sources_, step);
  Sizes sizes(*sources_, ladder);
  plan.step_tokens = step.tokens;
  plan.conversation_tokens =
      step.saved > 0 ? plan.tokens_before - sizes.chunks(0) - step.saved : plan.budget.usable;
  const std::optional<size_t> count = shortest_that_fits(sizes, ladder, plan);
  if (!count) {
    plan.status = KeepPlan::Status::kRefused;
    plan.tokens = sizes.smallest().value_or(plan.tokens_before);
    return false;
  }
  plan.status = KeepPlan::Status::kChanged;
  plan.tokens = *sizes.exact(*count);
  plan.draft = after(*sources_, ladder, *count);
  plan.actions.assign(ladder.begin(), ladder.begin() + static_cast<std::ptrdiff_t>(*count));
  return true;
}

namespace {

std::string numbers_of(const Limits& limits, int64_t prompt_tokens, int64_t reserve) {
  return fmt::format(
      "This model's maximum context length is {} tokens. However, your messages resulted in {} "
      "tokens, and {} more must be left for the answer",
      limits.window, prompt_tokens, reserve);
}

}  // namespace

Error reject_error(const Limits& limits, int64_t prompt_tokens, int64_t reserve) {
  return {ErrorCode::kDoesNotFit,
          fmt::format("{}: {} too many; shorten the request, lower max_tokens, or choose an "
                      "overflow policy ({})",
                      numbers_of(limits, prompt_tokens, reserve),
                      prompt_tokens + reserve - limits.window, policy_names())};
}

Error overflow_error(const Planner& planner, const KeepPlan& plan) {
  const Policy policy = planner.request().policy.policy;
  if (policy == Policy::kReject) {
    return reject_error(plan.limits, plan.tokens_before, plan.budget.reserve);
  }
  std::string sentence = numbers_of(plan.limits, plan.tokens_before, plan.budget.reserve);
  sentence += fmt::format("; {} brings the prompt down to {} at best, {} too many", name(policy),
                          plan.tokens, plan.deficit());
  std::string pinned;
  for (const Part& part : planner.anatomy().parts) {
    const bool stays =
        part.pin || (part.message && !planner.anatomy().groups[part.group].droppable);
    if (!stays || part.tokens == 0) continue;
    pinned += fmt::format("{}{} {}", pinned.empty() ? "" : ", ", part.id, part.tokens);
  }
  if (!pinned.empty()) sentence += fmt::format(" (pinned: {})", pinned);
  return {ErrorCode::kDoesNotFit, std::move(sentence)};
}

}  // namespace quire::context::window
