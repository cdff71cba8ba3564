// How requests join a Scheduler's running ones.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/scheduler.h"
#include "engine/scheduler_entry.h"

namespace quire::engine {
namespace {

int64_t common_tokens(std::span<const TokenId> a, std::span<const TokenId> b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
}

template <class Entries>
std::vector<Contender> contenders(const Entries& entries) {
  std::vector<Contender> all;
  for (const auto& entry : entries) all.push_back(entry->contender());
  return all;
}

template <class Entries>
void insert(Entries& entries, typename Entries::value_type entry) {
  const auto place =
      std::ranges::upper_bound(entries, entry->id, {}, [](const auto& other) { return other->id; });
  entries.insert(place, std::move(entry));
}

}  // namespace

bool Scheduler::has_foreground() const {
  const auto is_foreground = [](const auto& entry) { return !entry->is_background(); };
  return std::ranges::any_of(running_, is_foreground) ||
         std::ranges::any_of(waiting_, is_foreground);
}

/// What runs in the background waits while others are there.
void Scheduler::make_way_for_foreground() {
  if (!has_foreground()) return;
  for (size_t i = running_.size(); i-- > 0;) {
    if (running_[i]->is_background()) give_way(i);
  }
}

/// Takes the request whose turn it is out of the queue, if it may start now.
std::unique_ptr<Scheduler::Entry> Scheduler::admit() {
  if (no_room_) return nullptr;
  std::vector<Contender> ready;
  const bool foreground = has_foreground();
  for (const auto& entry : waiting_) {
    if (foreground && entry->is_background()) continue;
    if (!still_follows(*entry)) ready.push_back(entry->contender());
  }
  const auto next = next_to_start(ready, contenders(running_));
  if (!next) return nullptr;
  const Contender candidate = ready[*next];
  // Where memory ran out, whoever joins would soon have to leave again.
  const bool is_full = num_running() >= max_running_ || (ran_out_ && !running_.empty());
  if (is_full && !make_way_for(candidate)) return nullptr;
  std::unique_ptr<Entry> entry = take_out(candidate.id);
  entry->leader.reset();
  return entry;
}

/// Whether somebody else is still reading what the entry waits for.
bool Scheduler::still_follows(const Entry& entry) const {
  if (!entry.leader) return false;
  return std::ranges::any_of(running_, [&](const auto& other) {
    return other->id == entry.leader->id && other->sequence->length() < entry.leader->until;
  });
}

/// Starts from what is known of its tokens; false if another is about to know more.
bool Scheduler::match_prefix(Entry& entry) {
  const Request& request = entry.request;
  entry.sequence = engine_.create_sequence(
      {.tenant = request.tenant, .salt = request.salt, .reuse = request.reuse});
  Reuse reuse = engine_.resume(*entry.sequence, entry.tokens);
  for (const auto& other : running_) {
    if (!other->is_reading()) continue;
    const int64_t common = shared_tokens(entry, *other);
    // Less than a page is not worth the wait.
    if (common < entry.sequence->length() + kv::kPageTokens) continue;
    if (other->sequence->length() >= common) {
      // It has passed the point. Its window pages there are gone; others it has only to show.
      if (engine_.has_windows()) continue;
      engine_.publish(*other->sequence, PublishPoint::kGoesOn);
      reuse = engine_.resume(*entry.sequence, entry.tokens);
      continue;
    }
    if (entry.leader && entry.leader->until >= common) continue;
    entry.leader = {other->id, common};
  }
  if (!entry.answer) entry.reuse = reuse;
  if (!entry.leader) return true;
  const auto leader = std::ranges::find_if(
      running_, [&](const auto& other) { return other->id == entry.leader->id; });
  std::vector<int64_t>& points = (*leader)->resume_points;
  const auto place = std::ranges::lower_bound(points, entry.leader->until);
  if (place == points.end() || *place != entry.leader->until) {
    points.insert(place, entry.leader->until);
  }
  return false;
}

/// Tokens of `a` that it can have from `b` when both are read, never its last.
int64_t Scheduler::shared_tokens(const Entry& a, const Entry& b) const {
  if (!a.shares_with(b) || !engine_.shares_prefixes()) return 0;
  const int64_t common = std::min(common_tokens(a.tokens, b.tokens), a.num_tokens() - 1);
  return engine_.shares_whole_pages() ? common - common % kv::kPageTokens : common;
}

/// Whether its pages, and one more, are there beside what the running ones were promised.
bool Scheduler::reserve(const Entry& entry) {
  for (;;) {
    // Its worst case fits the whole pool (check_request), and the prefix tree gives way.
    if (running_.empty()) return true;
    int64_t promised = promised_bytes(entry);
    for (const auto& other : running_) promised += promised_bytes(*other);
    const int64_t held = engine_.page_counts().sequence_bytes;
    if (promised <= engine_.kv_stats().bytes_budget - held) return true;
    if (make_way_for(entry.contender())) continue;
    no_room_ = true;
    return false;
  }
}

/// Bytes that it lacks for its tokens and a page more.
int64_t Scheduler::promised_bytes(const Entry& entry) const {
  if (engine_.cache().recomputes()) return 0;
  const int64_t tokens = std::min(entry.num_tokens() + kv::kPageTokens, engine_.window().tokens);
  const int64_t chunk = entry.is_reading() ? engine_.max_step_tokens() : 1;
  const int64_t needed = engine_.geometry().peak_bytes(tokens, chunk);
  return std::max<int64_t>(0, needed - engine_.cached(*entry.sequence).bytes_held);
}

/// Lets one of a tenant that has more than its share wait, so that others get theirs.
bool Scheduler::make_way_for(const Contender& candidate) {
  const auto victim = whom_to_replace(candidate, contenders(running_));
  if (victim) preempt(*victim);
  return victim.has_value();
}

void Scheduler::start(std::unique_ptr<Entry> entry) {
  if (!entry->answer) {
    counters_.prefix_queries += entry->prompt_tokens();
    counters_.prefix_hits += entry->reuse.cached_tokens;
    const auto show = [&text = entry->text](std::string_view more) {
      text += more;
      return true;
    };
    entry->answer = std::make_unique<Answer>(engine_, entry->request.options, show,
                                             entry->request.constraint.get());
    entry->answer->set_prompt(entry->prompt_tokens(), entry->reuse);
  }
  if (!entry->has_spoken()) entry->listener->on_start(entry->reuse);
  insert(running_, std::move(entry));
}

void Scheduler::put_back(std::unique_ptr<Entry> entry) {
  entry->sequence.reset();
  insert(waiting_, std::move(entry));
}

void Scheduler::preempt(size_t index) {
  ++counters_.preemptions;
  give_way(index);
}

/// Back to the queue. Its tokens stay, and its pages as long as the prefix tree has room for them.
void Scheduler::give_way(size_t index) {
  std::unique_ptr<Entry> entry = std::move(running_[index]);
  running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(index));
  stop_reading(*entry);
  engine_.publish(*entry->sequence, PublishPoint::kEnds);
  put_back(std::move(entry));
}

}  // namespace quire::engine
