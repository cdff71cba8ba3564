#include "engine/grammar/automaton.h"

#include <algorithm>

#include "base/check.h"

namespace quire::engine::grammar {
namespace {

/// Readings of one state, and steps to find them: what a hostile schema can cost for each byte.
/// Some hundred alternatives that begin alike stay well below.
constexpr size_t kMostReadings = 1024;
constexpr size_t kMostSeen = 4096;
constexpr Automaton::StateId kUnknown = -2;
/// Frame::count of a call.
constexpr int32_t kNoCount = -1;

uint64_t mixed(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
  return hash ^ hash >> 29;
}

uint64_t pair_of(int32_t high, int32_t low) {
  return uint64_t{static_cast<uint32_t>(high)} << 32 | static_cast<uint32_t>(low);
}

}  // namespace

size_t Automaton::FrameHash::operator()(const Frame& frame) const {
  return mixed(mixed(1, pair_of(frame.node, frame.count)), pair_of(frame.parent, frame.level));
}

size_t Automaton::ReadingsHash::operator()(const std::vector<Reading>& readings) const {
  uint64_t hash = readings.size();
  for (const Reading& reading : readings) hash = mixed(hash, pair_of(reading.node, reading.frame));
  return hash;
}

Automaton::Automaton(const Program& program) : program_(&program) {
  expand(program_->rules[program_->start.value].value, -1);
  start_ = intern();
  QUIRE_CHECK(start_ != kDead, "a sealed grammar has a way to begin");
}

int32_t Automaton::push(const Frame& frame) {
  const auto [it, added] = frame_ids_.try_emplace(frame, static_cast<int32_t>(frames_.size()));
  if (added) frames_.push_back(frame);
  return it->second;
}

/// Follows every way from a node to where input is needed; adds what is found to found_.
void Automaton::expand(int32_t node, int32_t frame) {
  pending_.push_back({node, frame});
  while (!pending_.empty()) {
    const Reading next = pending_.back();
    pending_.pop_back();
    const bool too_deep = level_of(next.frame) + program_->levels[next.node] > kMostLevels;
    if (too_deep || !seen_.insert(pair_of(next.node, next.frame)).second) continue;
    const bool enough = found_.size() >= kMostReadings || seen_.size() >= kMostSeen;
    if (enough && !found_.empty()) {
      forgot_ = true;
      continue;
    }
    expand_one(next.node, next.frame);
  }
}

void Automaton::expand_one(int32_t node, int32_t frame) {
  const Node& step = program_->nodes[node];
  switch (step.kind) {
    case Node::Kind::kReturn:
      return return_to(frame);
    case Node::Kind::kBytes:
    case Node::Kind::kToken:
      found_.push_back({node, frame});
      return;
    case Node::Kind::kSplit:
      // Last in, first out: the first alternative is looked at first.
      for (int32_t i = step.count; i-- > 0;) {
        pending_.push_back({program_->alternatives[step.operand + i].value, frame});
      }
      return;
    case Node::Kind::kCall: {
      const int32_t body = program_->rules[step.operand].value;
      const bool returns_at_once =
          program_->nodes[step.next.value].kind == Node::Kind::kReturn && !step.deeper;
      const int32_t level = level_of(frame) + (step.deeper ? 1 : 0);
      pending_.push_back(
          {body, returns_at_once ? frame : push({step.next.value, kNoCount, frame, level})});
      return;
    }
    case Node::Kind::kRepeat:
      return go_on_repeating(node, 0, frame);
  }
}

/// `count` rounds are done.
void Automaton::go_on_repeating(int32_t node, int32_t count, int32_t parent) {
  const Node& step = program_->nodes[node];
  if (count < step.most) {
    const int32_t frame = push({node, count, parent, level_of(parent)});
    pending_.push_back({program_->rules[step.operand].value, frame});
  }
  if (count >= step.least) pending_.push_back({step.next.value, parent});
}

void Automaton::return_to(int32_t frame) {
  if (frame < 0) {
    complete_ = true;
    return;
  }
  const Frame open = frames_[frame];
  if (open.count == kNoCount) {
    pending_.push_back({open.node, open.parent});
    return;
  }
  const Node& step = program_->nodes[open.node];
  // Once there are enough, an endless repetition need not count on.
  const int32_t count =
      step.most == kUnbounded ? std::min(open.count + 1, step.least) : open.count + 1;
  go_on_repeating(open.node, count, open.parent);
}

int64_t Automaton::budget_of(const Reading& reading) const {
  if (reading.frame < 0 || !program_->nodes[reading.node].begins_text) return 0;
  const Frame& frame = frames_[reading.frame];
  if (frame.count == kNoCount) return 0;
  const Node& step = program_->nodes[frame.node];
  return step.most == kUnbounded ? std::numeric_limits<int64_t>::max() : step.most - frame.count;
}

/// The state of found_ and complete_, which it clears.
Automaton::StateId Automaton::intern() {
  // In the order they were found, which depends on the input alone; numbers of frames do not.
  if (complete_) found_.push_back(kComplete);
  StateId id = kDead;
  if (!found_.empty()) {
    const auto [it, added] = state_ids_.try_emplace(found_, static_cast<StateId>(states_.size()));
    id = it->second;
    if (added) states_.push_back(make_state());
  }
  found_.clear();
  seen_.clear();
  forgot_ = false;
  complete_ = false;
  return id;
}

Automaton::State Automaton::make_state() const {
  State state;
  state.readings = found_;
  if (complete_) state.readings.pop_back();
  state.complete = complete_;
  state.next.assign(program_->byte_of_class.size(), kUnknown);
  // Of a character's first bytes some may be among what was forgotten.
  if (forgot_) return state;
  for (const Reading& reading : state.readings) {
    state.text_budget = std::max(state.text_budget, budget_of(reading));
  }
  return state;
}

Automaton::StateId Automaton::step(StateId state, uint8_t byte) {
  const uint8_t byte_class = program_->class_of[byte];
  const StateId known = states_[state].next[byte_class];
  if (known != kUnknown) return known;
  for (size_t i = 0; i < states_[state].readings.size(); ++i) {
    const Reading reading = states_[state].readings[i];
    const Node& step = program_->nodes[reading.node];
    if (step.kind != Node::Kind::kBytes || !program_->sets[step.operand].contains(byte)) continue;
    expand(step.next.value, reading.frame);
  }
  const StateId next = intern();
  states_[state].next[byte_class] = next;
  return next;
}

Automaton::StateId Automaton::step_token(StateId state, TokenId token) {
  for (size_t i = 0; i < states_[state].readings.size(); ++i) {
    const Reading reading = states_[state].readings[i];
    const Node& step = program_->nodes[reading.node];
    if (step.kind != Node::Kind::kToken || step.operand != token.value) continue;
    expand(step.next.value, reading.frame);
  }
  return intern();
}

int32_t Automaton::adopt_frame(const Automaton& other, int32_t frame) {
  std::vector<int32_t> chain;  // from the top down
  for (; frame >= 0; frame = other.frames_[frame].parent) chain.push_back(frame);
  int32_t own = -1;
  while (!chain.empty()) {
    Frame copy = other.frames_[chain.back()];
    copy.parent = own;
    own = push(copy);
    chain.pop_back();
  }
  return own;
}

Automaton::StateId Automaton::adopt(const Automaton& other, StateId state) {
  const State& theirs = other.states_[state];
  for (const Reading& reading : theirs.readings) {
    found_.push_back({reading.node, adopt_frame(other, reading.frame)});
  }
  complete_ = theirs.complete;
  forgot_ = theirs.text_budget == 0;
  return intern();
}

std::vector<TokenId> Automaton::named_tokens(StateId state) const {
  std::vector<TokenId> tokens;
  for (const Reading& reading : states_[state].readings) {
    const Node& step = program_->nodes[reading.node];
    if (step.kind == Node::Kind::kToken) tokens.push_back(TokenId{step.operand});
  }
  return tokens;
}

}  // namespace quire::engine::grammar
