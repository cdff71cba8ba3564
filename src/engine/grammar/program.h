// program.h: a grammar over bytes and tokens as a graph of small steps.
//
// A step reads a byte of a set, reads one token, branches, calls a rule or repeats one a counted
// number of times: bounds are counters, so "at most a million" costs no more than "at most two".
// Rules may call themselves. seal() proves that every way through the grammar can be finished, and
// knows for each step how many levels of nesting that takes at least.
// A Program is immutable: any number of threads. A builder belongs to one.
#pragma once
#include <array>
#include <compare>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace quire::engine::grammar {

/// A set of bytes.
class ByteSet {
 public:
  constexpr ByteSet() = default;
  static constexpr ByteSet range(int first, int last) {
    ByteSet set;
    for (int byte = first; byte <= last; ++byte) set.add(static_cast<uint8_t>(byte));
    return set;
  }
  static constexpr ByteSet of(std::string_view bytes) {
    ByteSet set;
    for (const char c : bytes) set.add(static_cast<uint8_t>(c));
    return set;
  }
  constexpr void add(uint8_t byte) { words_[byte / 64] |= uint64_t{1} << byte % 64; }
  constexpr bool contains(uint8_t byte) const { return (words_[byte / 64] >> byte % 64 & 1) != 0; }
  constexpr bool empty() const { return (words_[0] | words_[1] | words_[2] | words_[3]) == 0; }
  /// What is here and not in `other`.
  constexpr ByteSet without(const ByteSet& other) const {
    ByteSet set;
    for (size_t i = 0; i < words_.size(); ++i) set.words_[i] = words_[i] & ~other.words_[i];
    return set;
  }
  friend auto operator<=>(const ByteSet&, const ByteSet&) = default;

 private:
  std::array<uint64_t, 4> words_{};
};

struct NodeId {
  int32_t value = -1;
  friend auto operator<=>(const NodeId&, const NodeId&) = default;
};
struct RuleId {
  int32_t value = -1;
  friend auto operator<=>(const RuleId&, const RuleId&) = default;
};

/// Repeat::most of a repetition that may go on for ever.
constexpr int32_t kUnbounded = std::numeric_limits<int32_t>::max();

/// The deepest nesting of values in an answer: readers of JSON commonly stop at 100 or 128.
constexpr int32_t kMostLevels = 96;

struct Node {
  enum class Kind : uint8_t {
    kReturn,  // the rule is complete
    kBytes,   // one byte of sets[operand]
    kToken,   // the token `operand`
    kSplit,   // one of alternatives[operand, operand + count)
    kCall,    // rules[operand]
    kRepeat,  // rules[operand], least to most times
  };
  Kind kind = Kind::kReturn;
  /// kBytes: begins one more character of free text: in the rule it belongs to, every character of
  /// UTF-8 but controls, '"', '\', U+2028 and U+2029 may come. Rules of which one character is the
  /// whole.
  bool begins_text = false;
  /// kCall: one level of nesting deeper.
  bool deeper = false;
  int32_t operand = 0;
  int32_t count = 0;
  int32_t least = 0;
  int32_t most = 0;
  NodeId next;
};

struct Program {
  std::vector<Node> nodes;
  std::vector<NodeId> alternatives;
  std::vector<NodeId> rules;  // where each begins
  std::vector<ByteSet> sets;
  RuleId start;
  /// Levels of nesting that finishing the rule takes at least, from each node.
  std::vector<int32_t> levels;
  /// Bytes that no set tells apart share a class.
  std::array<uint8_t, 256> class_of{};
  std::vector<uint8_t> byte_of_class;  // one of each
};

/// Grows a program from its ends: each step is made with what follows it, and returns itself.
class ProgramBuilder {
 public:
  /// More is refused by seal(): no schema that a person wrote comes near.
  static constexpr size_t kMostNodes = 400'000;

  ProgramBuilder();

  NodeId done() const { return NodeId{0}; }
  NodeId bytes(const ByteSet& set, NodeId next);
  NodeId text_start(const ByteSet& set, NodeId next);
  NodeId literal(std::string_view text, NodeId next);
  NodeId token(TokenId id, NodeId next);
  /// Requires at least one alternative.
  NodeId choice(const std::vector<NodeId>& alternatives);
  /// A way that cannot be taken: whatever leads only here is never begun.
  NodeId impossible() { return add({.kind = Node::Kind::kSplit}); }
  NodeId optional(NodeId step, NodeId next) { return choice({step, next}); }
  NodeId call(RuleId rule, NodeId next);
  NodeId call_deeper(RuleId rule, NodeId next);
  /// The rule must not match nothing. Requires 0 <= least <= most.
  NodeId repeat(RuleId rule, int32_t least, int32_t most, NodeId next);
  /// One of these texts, told apart byte by byte. Requires at least one, all distinct.
  NodeId any_of(const std::vector<std::string>& texts, NodeId next);

  RuleId declare();
  void define(RuleId rule, NodeId entry);
  RuleId rule(NodeId entry);

  /// That building on would be refused anyway.
  bool is_full() const { return program_.nodes.size() > kMostNodes; }

  /// Refuses a grammar that is too large, or that some rule of it can never finish.
  Result<Program> seal(RuleId start) &&;

 private:
  NodeId add(Node node);
  int32_t set_index(const ByteSet& set);

  Program program_;
  std::map<ByteSet, int32_t> set_indices_;
};

}  // namespace quire::engine::grammar
