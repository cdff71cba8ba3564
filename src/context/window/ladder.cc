#include "context/window/ladder.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "base/integer_math.h"
#include "context/window/cut_text.h"

namespace quire::context::window {
namespace {

using Kind = Action::Kind;

/// What a stub must save to be worth the loss.
constexpr int64_t kLeastGain = 16;
/// By so many tokens counts of neighbouring texts may differ from the count of both.
constexpr int64_t kSeamTokens = 8;
constexpr std::string_view kSampleMarker = "\n[... 9999 tokens cut here, handle h99 ...]\n";
/// Below it a summary would hold little more than its header.
constexpr int64_t kLeastSummarized = 240;

/// Room for a summary of so many tokens: a quarter, at most `most`; 0 where none is worth its
/// while.
int64_t summary_room(int64_t input_tokens, int64_t most) {
  return input_tokens < kLeastSummarized ? 0 : std::min(input_tokens / 4, most);
}

/// Builds one policy's ladder out of phases.
class LadderBuilder {
 public:
  LadderBuilder(const Sources& sources, const Step& step)
      : s_(sources),
        a_(sources.anatomy),
        step_(step),
        marker_(count_text(sources.text.tokenizer, kSampleMarker)) {}

  std::vector<Action> build(Policy policy) {
    switch (policy) {
      case Policy::kReject:
        break;
      case Policy::kTruncateLeft:
        drop_groups(droppable_groups());
        drop_chunks(chunks_by_score(0));
        break;
      case Policy::kTruncateRight:
        cut_question(Truncate::kHead);
        break;
      case Policy::kHeadTail: {
        std::vector<int32_t> groups = droppable_groups();
        if (!groups.empty()) groups.erase(groups.begin());
        drop_groups(groups);
        drop_chunks(chunks_by_score(0));
        break;
      }
      case Policy::kSummarize:
        summarize(turns());
        break;
      case Policy::kRetrieve:
        retrieve();
        break;
      case Policy::kAuto:
        build_auto();
        break;
    }
    estimate_savings();
    return std::move(ladder_);
  }

 private:
  /// What each action takes away at most, whatever was done before it.
  void estimate_savings() {
    left_ = a_.extent_of_message;
    for (Action& action : ladder_) action.saves_at_most = savings(action);
  }

  /// Takes a text of `was` tokens out of a message and leaves `is`.
  int64_t replace(int32_t message, int64_t was, int64_t is) {
    left_[message] = std::max<int64_t>(left_[message] - was + is + kSeamTokens, 0);
    return std::max<int64_t>(was - is, 0) + kSeamTokens;
  }

  int64_t remove(const Group& group) {
    int64_t saved = 0;
    for (const int32_t m : group.messages) saved += std::exchange(left_[m], 0);
    return saved;
  }

  int64_t savings(const Action& action) {
    switch (action.kind) {
      case Kind::kSupersede:
      case Kind::kMask:
        return replace(action.target, a_.message_part(action.target).tokens,
                       stub_tokens(action.target, action.kind));
      case Kind::kRemoveThinking:
        return replace(action.target, thinking_tokens(action.target), 0);
      case Kind::kCut:
        return replace(action.target, action.saves_at_most, 0);
      case Kind::kDropGroup:
      case Kind::kSummarize:
        return remove(a_.groups[action.target]);
      case Kind::kRetrieve: {
        int64_t saved = 0;
        for (const int32_t g : turns()) saved += remove(a_.groups[g]);
        return saved;
      }
      case Kind::kDropChunk:
        return action.saves_at_most;
      case Kind::kDropSummary:
        break;
    }
    return 0;
  }

  /// With the tags, which the template may write around it.
  int64_t thinking_tokens(int32_t message) const {
    std::string thinking = thinking_of(s_, message);
    if (const auto& tags = s_.text.chat_template.traits().reasoning_tags) {
      thinking += tags->first + tags->second;
    }
    return count_text(s_.text.tokenizer, thinking) + kSeamTokens;
  }

  int64_t stub_tokens(int32_t message, Kind kind) const {
    const Treatment treatment = kind == Kind::kSupersede ? Treatment::kSupersede : Treatment::kMask;
    return count_text(s_.text.tokenizer, stub_text(s_, message, treatment));
  }

  void build_auto() {
    supersede();
    mask();
    drop_chunks(chunks_by_score(1));
    drop_groups(few_shots());
    std::vector<int32_t> old = turns();
    if (!old.empty()) old.pop_back();
    const std::vector<int32_t> summarized = summarize(old);
    cut_largest();
    if (!summarized.empty()) {
      ladder_.push_back({.kind = Kind::kDropSummary});
    }
    drop_groups(without(droppable_groups(), summarized));
    drop_chunks(chunks_by_score(0));
    cut_question(Truncate::kHeadTail);
  }

  std::vector<int32_t> groups_where(auto keep) const {
    std::vector<int32_t> found;
    for (size_t g = 0; g < a_.groups.size(); ++g) {
      const Group& group = a_.groups[g];
      if (!group.droppable || !settled(group.messages.back()) || !keep(group)) continue;
      found.push_back(static_cast<int32_t>(g));
    }
    return found;
  }

  bool settled(int32_t message) const { return message < step_.settled; }

  /// Turns and examples in the order of the request, then memories and documents, then calls that
  /// the question led to.
  std::vector<int32_t> droppable_groups() const {
    std::vector<int32_t> found = groups_where([](const Group&) { return true; });
    const auto rank = [&](int32_t g) {
      const Group::Kind kind = a_.groups[g].kind;
      return kind == Group::Kind::kStep ? 2 : kind == Group::Kind::kLead ? 1 : 0;
    };
    std::ranges::stable_sort(found, {}, rank);
    return found;
  }

  std::vector<int32_t> turns() const {
    return groups_where([](const Group& group) { return group.summarizable; });
  }

  /// The least important first; of equal ones the last, so that those before it stay cached.
  std::vector<int32_t> few_shots() const {
    std::vector<int32_t> found =
        groups_where([](const Group& g) { return g.kind == Group::Kind::kFewShot; });
    std::ranges::reverse(found);
    std::ranges::stable_sort(found, {}, [&](int32_t g) { return a_.groups[g].priority; });
    return found;
  }

  /// Those that are neither in the summary nor dropped already.
  std::vector<int32_t> without(std::vector<int32_t> groups,
                               const std::vector<int32_t>& summarized) const {
    std::set<int32_t> gone(summarized.begin(), summarized.end());
    for (const Action& action : ladder_) {
      if (action.kind == Kind::kDropGroup) gone.insert(action.target);
    }
    std::erase_if(groups, [&](int32_t g) { return gone.contains(g); });
    return groups;
  }

  void drop_groups(const std::vector<int32_t>& groups) {
    for (const int32_t g : groups) {
      ladder_.push_back({.kind = Kind::kDropGroup, .target = g});
    }
  }

  /// Chunks to drop, the worst first, but for the best `spared`.
  std::vector<int32_t> chunks_by_score(size_t spared) const {
    std::vector<int32_t> chunks;
    for (size_t c = 0; c < s_.chunks.size(); ++c) {
      if (!chunk_dropped(static_cast<int32_t>(c))) chunks.push_back(static_cast<int32_t>(c));
    }
    std::ranges::stable_sort(chunks, {}, [&](int32_t c) { return s_.chunks[c].score; });
    const auto budget = s_.request.policy.budgets.find(PartKind::kRag);
    if (spared > 0 && budget != s_.request.policy.budgets.end()) {
      return beyond_budget(chunks, budget->second);
    }
    chunks.resize(chunks.size() - std::min(spared, chunks.size()));
    return chunks;
  }

  /// Those to drop so that the rest takes at most `budget`.
  std::vector<int32_t> beyond_budget(const std::vector<int32_t>& chunks, int64_t budget) const {
    int64_t total = 0;
    for (const int32_t c : chunks) total += chunk_tokens(c);
    std::vector<int32_t> dropped;
    for (const int32_t c : chunks) {
      if (total <= budget) break;
      total -= chunk_tokens(c);
      dropped.push_back(c);
    }
    return dropped;
  }

  /// Excerpts from the history are no part of the request: they are counted by their bytes, of
  /// which a token has at least one.
  int64_t chunk_tokens(int32_t chunk) const {
    const size_t excerpts = s_.chunks.size() - a_.part_of_chunk.size();
    const auto index = static_cast<size_t>(chunk);
    if (index < excerpts) return static_cast<int64_t>(chunk_text(s_.chunks[index]).size());
    return a_.parts[a_.part_of_chunk[index - excerpts]].tokens;
  }

  bool chunk_dropped(int32_t chunk) const {
    return std::ranges::any_of(ladder_, [&](const Action& action) {
      return action.kind == Kind::kDropChunk && action.target == chunk;
    });
  }

  bool chunk_pinned(int32_t chunk) const {
    const size_t excerpts = s_.chunks.size() - a_.part_of_chunk.size();
    const auto index = static_cast<size_t>(chunk);
    return index >= excerpts && a_.parts[a_.part_of_chunk[index - excerpts]].pin;
  }

  void drop_chunks(const std::vector<int32_t>& chunks) {
    for (const int32_t c : chunks) {
      if (chunk_pinned(c)) continue;
      ladder_.push_back(
          {.kind = Kind::kDropChunk, .target = c, .saves_at_most = chunk_tokens(c) + kSeamTokens});
    }
  }

  /// The results that are settled, in order.
  std::span<const ToolResult> settled_results() const {
    const auto end = std::ranges::find_if_not(
        s_.results, [&](const ToolResult& result) { return settled(result.message); });
    return {s_.results.begin(), end};
  }

  /// Tool results that may become stubs: not pinned, long enough, not among the newest.
  std::vector<int32_t> maskable() const {
    std::vector<int32_t> found;
    const auto keep = static_cast<size_t>(std::max(s_.request.policy.keep_results, 0));
    const std::span<const ToolResult> results = settled_results();
    for (size_t i = 0; i + keep < results.size(); ++i) {
      const int32_t m = results[i].message;
      const Part& part = a_.message_part(m);
      if (part.kind != PartKind::kToolResult || part.pin) continue;
      if (part.tokens >= stub_tokens(m, Kind::kMask) + kLeastGain) found.push_back(m);
    }
    return found;
  }

  void supersede() {
    std::map<std::pair<std::string, std::string>, int32_t> last;
    for (const ToolResult& result : settled_results()) {
      last[{result.tool, result.arguments}] = result.message;
    }
    for (const int32_t m : maskable()) {
      const auto& result = *std::ranges::lower_bound(s_.results, m, {}, &ToolResult::message);
      if (result.tool.empty() || last[{result.tool, result.arguments}] == m) continue;
      ladder_.push_back({.kind = Kind::kSupersede, .target = m});
      superseded_.insert(m);
    }
  }

  void mask() {
    const size_t first = ladder_.size();
    for (const int32_t m : maskable()) {
      if (superseded_.contains(m)) continue;
      ladder_.push_back({.kind = Kind::kMask, .target = m});
    }
    for (int32_t m = 0; m < a_.question && settled(m); ++m) {
      if (a_.pinned(m) || thinking_of(s_, m).empty()) continue;
      ladder_.push_back({.kind = Kind::kRemoveThinking, .target = m});
    }
    std::stable_sort(ladder_.begin() + static_cast<std::ptrdiff_t>(first), ladder_.end(),
                     [](const Action& a, const Action& b) { return a.target < b.target; });
  }

  /// Returns the groups that go into the summary; none where it is not worth its while.
  std::vector<int32_t> summarize(const std::vector<int32_t>& groups) {
    int64_t input = 0;
    for (const int32_t g : groups) input += a_.groups[g].tokens;
    if (summary_room(input, step_.most_summary) == 0) return {};
    input = 0;
    for (const int32_t g : groups) {
      input += a_.groups[g].tokens;
      ladder_.push_back({.kind = Kind::kSummarize,
                         .target = g,
                         .keep = step_.most_summary,
                         .may_stop = summary_room(input, step_.most_summary) > 0});
    }
    return groups;
  }

  void retrieve() {
    if (!turns().empty()) ladder_.push_back({.kind = Kind::kRetrieve});
    drop_chunks(chunks_by_score(0));
  }

  /// What may be cut and still stands, with what it has now.
  std::map<int32_t, int64_t> cuttable() const {
    std::map<int32_t, int64_t> sizes;
    const Draft draft = after(s_, ladder_, ladder_.size());
    for (size_t i = 0; i < draft.messages.size(); ++i) {
      const auto m = static_cast<int32_t>(i);
      const Part& part = a_.message_part(m);
      const bool cut = draft.messages[i].treatment == Treatment::kKeep && !part.pin &&
                       part.truncate != Truncate::kNone && m != a_.question && settled(m);
      if (cut && part.tokens > part.min_tokens + marker_) sizes[m] = part.tokens;
    }
    return sizes;
  }

  void cut(int32_t message, Truncate truncate, int64_t from, int64_t keep) {
    ladder_.push_back({.kind = Kind::kCut,
                       .target = message,
                       .keep = keep,
                       .truncate = truncate,
                       .saves_at_most = from - keep});
  }

  /// Kinds beyond their budget first, then whatever is largest, a quarter at a time.
  void cut_largest() {
    std::map<int32_t, int64_t> sizes = cuttable();
    for (const auto& [kind, budget] : s_.request.policy.budgets) cut_to_budget(kind, budget, sizes);
    while (!sizes.empty()) {
      const auto largest = std::ranges::max_element(
          sizes, {}, [](const auto& entry) { return std::pair(entry.second, -entry.first); });
      const int64_t keep =
          std::max(largest->second * 3 / 4, a_.message_part(largest->first).min_tokens);
      cut(largest->first, a_.message_part(largest->first).truncate, largest->second, keep);
      largest->second = keep;
      if (keep <= a_.message_part(largest->first).min_tokens) sizes.erase(largest);
    }
  }

  void cut_to_budget(PartKind kind, int64_t budget, std::map<int32_t, int64_t>& sizes) {
    int64_t total = 0;
    for (const auto& [m, size] : sizes) total += a_.message_part(m).kind == kind ? size : 0;
    if (total <= budget) return;
    for (auto& [m, size] : sizes) {
      if (a_.message_part(m).kind != kind) continue;
      const int64_t share = static_cast<int64_t>(
          static_cast<double>(size) * static_cast<double>(budget) / static_cast<double>(total));
      const int64_t keep = std::max(share, a_.message_part(m).min_tokens);
      if (keep >= size) continue;
      cut(m, a_.message_part(m).truncate, size, keep);
      size = keep;
    }
  }

  /// As little as needed, down to its minimum. A caller's pin forbids it.
  void cut_question(Truncate truncate) {
    const Part& part = a_.message_part(a_.question);
    if (step_.tokens > 0 || part.pin || part.truncate == Truncate::kNone) return;
    const int64_t stride = std::max<int64_t>(part.tokens / 256, 1);
    int64_t from = part.tokens;
    for (int64_t keep = part.tokens - marker_; keep >= part.min_tokens; keep -= stride) {
      cut(a_.question, truncate, from, keep);
      from = keep;
    }
  }

  const Sources& s_;
  const Anatomy& a_;
  Step step_;
  int64_t marker_;  // tokens of the mark of a cut
  std::vector<Action> ladder_;
  std::vector<int64_t> left_;  // of each message, at most
  std::set<int32_t> superseded_;
};

}  // namespace

Step step_for(const Sources& sources, int64_t tokens, int64_t usable) {
  if (tokens <= 0) return {};
  const Anatomy& anatomy = sources.anatomy;
  const int64_t chunks = kept_chunk_tokens(sources, untouched(sources));
  const int64_t excess = anatomy.prompt.count() - chunks - usable;
  const int64_t steps = excess > 0 ? divide_up(excess, tokens) : -(-excess / tokens);
  // The conversation was so long when this step began; the message that made it so was there.
  const int64_t began = anatomy.end_of_message.back() - chunks - excess + (steps - 1) * tokens;
  const auto count = static_cast<int32_t>(anatomy.end_of_message.size());
  int32_t settled = 0;
  while (settled < count) {
    const int64_t end =
        anatomy.end_of_message[settled] - (settled >= anatomy.question ? chunks : 0);
    ++settled;
    if (end > std::max<int64_t>(began, 0)) break;
  }
  Step step{.tokens = tokens, .saved = std::max<int64_t>(steps, 0) * tokens, .settled = settled};
  step.most_summary = std::clamp(usable / 4, kLeastSummarized / 4, step.most_summary);
  return step;
}

int64_t kept_chunk_tokens(const Sources& sources, const Draft& draft) {
  const Anatomy& anatomy = sources.anatomy;
  const size_t excerpts = sources.chunks.size() - anatomy.part_of_chunk.size();
  int64_t tokens = 0;
  for (size_t c = excerpts; c < sources.chunks.size(); ++c) {
    if (draft.chunk_kept[c]) tokens += anatomy.parts[anatomy.part_of_chunk[c - excerpts]].tokens;
  }
  return tokens;
}

std::vector<Action> make_ladder(const Sources& sources, const Step& step) {
  return LadderBuilder(sources, step).build(sources.request.policy.policy);
}

void apply(const Sources& sources, const Action& action, Draft& draft) {
  const Anatomy& anatomy = sources.anatomy;
  const auto treat_group = [&](int32_t group, Treatment treatment) {
    for (const int32_t m : anatomy.groups[group].messages) draft.messages[m].treatment = treatment;
  };
  switch (action.kind) {
    case Kind::kSupersede:
      draft.messages[action.target].treatment = Treatment::kSupersede;
      break;
    case Kind::kMask:
      draft.messages[action.target].treatment = Treatment::kMask;
      break;
    case Kind::kRemoveThinking:
      draft.messages[action.target].without_thinking = true;
      break;
    case Kind::kDropChunk:
      draft.chunk_kept[action.target] = false;
      break;
    case Kind::kDropGroup:
      treat_group(action.target, Treatment::kDrop);
      break;
    case Kind::kSummarize: {
      treat_group(action.target, Treatment::kSummarize);
      draft.summarized_groups.push_back(action.target);
      draft.summarized_tokens += anatomy.groups[action.target].tokens;
      draft.summary_tokens = summary_room(draft.summarized_tokens, action.keep);
      break;
    }
    case Kind::kDropSummary:
      for (const int32_t g : draft.summarized_groups) treat_group(g, Treatment::kDrop);
      draft.summarized_groups.clear();
      draft.summarized_tokens = 0;
      draft.summary_tokens = 0;
      break;
    case Kind::kRetrieve:
      for (size_t g = 0; g < anatomy.groups.size(); ++g) {
        const Group& group = anatomy.groups[g];
        if (!group.droppable || !group.summarizable) continue;
        treat_group(static_cast<int32_t>(g), Treatment::kReplace);
      }
      for (size_t c = 0; c < sources.chunks.size(); ++c) {
        if (sources.chunks[c].message) draft.chunk_kept[c] = true;
      }
      break;
    case Kind::kCut:
      draft.messages[action.target].treatment = Treatment::kCut;
      draft.messages[action.target].keep_tokens = action.keep;
      draft.messages[action.target].truncate = action.truncate;
      break;
  }
}

Draft after(const Sources& sources, const std::vector<Action>& ladder, size_t count) {
  Draft draft = untouched(sources);
  for (size_t i = 0; i < count; ++i) apply(sources, ladder[i], draft);
  return draft;
}

}  // namespace quire::context::window
