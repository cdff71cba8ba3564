// automaton.h: where an answer stands in a grammar, and which bytes and tokens may follow.
//
// A state is the set of all readings of what was written, each a place in the program and a stack
// of open rules; stacks share their tails. States are numbered as they are met and keep their
// transitions, so that the same byte in the same state costs one look-up the second time. Readings
// beyond a bound are forgotten, which only narrows what may follow: every reading that is kept can
// be finished, so no state is ever stuck. Everything depends on the bytes alone.
// Holds a reference to its Program. Use one from one thread at a time.
#pragma once
#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/ids.h"
#include "engine/grammar/program.h"

namespace quire::engine::grammar {

class Automaton {
 public:
  using StateId = int32_t;
  static constexpr StateId kDead = -1;

  explicit Automaton(const Program& program);

  StateId start() const { return start_; }
  /// The state after a byte, or kDead.
  StateId step(StateId state, uint8_t byte);
  /// The state after a token that the grammar names, or kDead. Not after its bytes.
  StateId step_token(StateId state, TokenId token);

  /// Whether what was written is complete.
  bool is_complete(StateId state) const { return states_[state].complete; }
  /// This many characters of plain text (no controls, no '"', no '\', neither U+2028 nor U+2029)
  /// may follow, whatever they are; 0 if the state is not at the start of a character of free text.
  int64_t text_budget(StateId state) const { return states_[state].text_budget; }
  /// The tokens that the grammar names here.
  std::vector<TokenId> named_tokens(StateId state) const;

  /// The same state of another automaton of the same program, which may have grown too large.
  StateId adopt(const Automaton& other, StateId state);
  int64_t num_states() const { return static_cast<int64_t>(states_.size()); }

 private:
  /// An open rule: where to go on when it returns, and how often a repetition has run.
  struct Frame {
    int32_t node;
    int32_t count;   // -1: a call
    int32_t parent;  // -1: none
    int32_t level;
    friend bool operator==(const Frame&, const Frame&) = default;
  };
  /// One reading: a node that waits for input under its open rules.
  struct Reading {
    int32_t node;
    int32_t frame;
    friend auto operator<=>(const Reading&, const Reading&) = default;
  };
  struct State {
    std::vector<Reading> readings;  // in the order they were found
    std::vector<StateId> next;      // by byte class; filled as asked for
    int64_t text_budget = 0;
    bool complete = false;
  };
  /// Stands in a state's key for being complete.
  static constexpr Reading kComplete{-1, -1};
  struct FrameHash {
    size_t operator()(const Frame& frame) const;
  };
  struct ReadingsHash {
    size_t operator()(const std::vector<Reading>& readings) const;
  };

  int32_t push(const Frame& frame);
  int32_t level_of(int32_t frame) const { return frame < 0 ? 0 : frames_[frame].level; }
  void expand(int32_t node, int32_t frame);
  void expand_one(int32_t node, int32_t frame);
  void go_on_repeating(int32_t node, int32_t count, int32_t parent);
  void return_to(int32_t frame);
  int32_t adopt_frame(const Automaton& other, int32_t frame);
  StateId intern();
  State make_state() const;
  int64_t budget_of(const Reading& reading) const;

  const Program* program_;
  std::vector<Frame> frames_;
  std::unordered_map<Frame, int32_t, FrameHash> frame_ids_;
  std::vector<State> states_;
  std::unordered_map<std::vector<Reading>, StateId, ReadingsHash> state_ids_;
  StateId start_ = 0;

  // Of the state that is being made.
  std::vector<Reading> pending_;
  std::vector<Reading> found_;
  std::unordered_set<uint64_t> seen_;
  bool forgot_ = false;
  bool complete_ = false;
};

}  // namespace quire::engine::grammar
