#include "engine/grammar/program.h"

#include <algorithm>

#include "base/check.h"

namespace quire::engine::grammar {
namespace {

constexpr int32_t kNever = std::numeric_limits<int32_t>::max() / 2;

int32_t levels_of(const Program& program, const std::vector<int32_t>& levels, const Node& node) {
  const auto of_rule = [&](int32_t rule) { return levels[program.rules[rule].value]; };
  switch (node.kind) {
    case Node::Kind::kReturn:
      return 0;
    case Node::Kind::kBytes:
    case Node::Kind::kToken:
      return levels[node.next.value];
    case Node::Kind::kSplit: {
      int32_t least = kNever;
      for (int32_t i = 0; i < node.count; ++i) {
        least = std::min(least, levels[program.alternatives[node.operand + i].value]);
      }
      return least;
    }
    case Node::Kind::kCall:
      return std::max(of_rule(node.operand) + (node.deeper ? 1 : 0), levels[node.next.value]);
    case Node::Kind::kRepeat:
      return std::max(node.least > 0 ? of_rule(node.operand) : 0, levels[node.next.value]);
  }
  return kNever;
}

/// Which nodes are looked at by each node: those whose levels depend on it.
std::vector<std::vector<int32_t>> find_users(const Program& program) {
  std::vector<std::vector<int32_t>> users(program.nodes.size());
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    const Node& node = program.nodes[i];
    const auto user = static_cast<int32_t>(i);
    if (node.next.value >= 0) users[node.next.value].push_back(user);
    const bool calls = node.kind == Node::Kind::kCall || node.kind == Node::Kind::kRepeat;
    if (calls) users[program.rules[node.operand].value].push_back(user);
    if (node.kind != Node::Kind::kSplit) continue;
    for (int32_t k = 0; k < node.count; ++k) {
      users[program.alternatives[node.operand + k].value].push_back(user);
    }
  }
  return users;
}

/// The least fixed point from above: levels fall until nothing changes.
std::vector<int32_t> find_levels(const Program& program) {
  const auto users = find_users(program);
  std::vector<int32_t> levels(program.nodes.size(), kNever);
  std::vector<int32_t> changed = {0};  // the one kReturn
  levels[0] = 0;
  while (!changed.empty()) {
    const int32_t node = changed.back();
    changed.pop_back();
    for (const int32_t user : users[node]) {
      const int32_t found = std::min(kNever, levels_of(program, levels, program.nodes[user]));
      if (found >= levels[user]) continue;
      levels[user] = found;
      changed.push_back(user);
    }
  }
  return levels;
}

/// Bytes are told apart by the sets that hold them.
void find_byte_classes(Program& program) {
  std::map<std::vector<bool>, uint8_t> classes;
  for (int byte = 0; byte < 256; ++byte) {
    std::vector<bool> members;
    members.reserve(program.sets.size());
    for (const ByteSet& set : program.sets) {
      members.push_back(set.contains(static_cast<uint8_t>(byte)));
    }
    const auto [it, added] =
        classes.try_emplace(std::move(members), static_cast<uint8_t>(classes.size()));
    if (added) program.byte_of_class.push_back(static_cast<uint8_t>(byte));
    program.class_of[byte] = it->second;
  }
}

}  // namespace

ProgramBuilder::ProgramBuilder() {
  add({});
}

NodeId ProgramBuilder::add(Node node) {
  const NodeId id{static_cast<int32_t>(program_.nodes.size())};
  program_.nodes.push_back(node);
  return id;
}

int32_t ProgramBuilder::set_index(const ByteSet& set) {
  const auto [it, added] =
      set_indices_.try_emplace(set, static_cast<int32_t>(program_.sets.size()));
  if (added) program_.sets.push_back(set);
  return it->second;
}

NodeId ProgramBuilder::bytes(const ByteSet& set, NodeId next) {
  QUIRE_CHECK(!set.empty(), "a step that no byte can take");
  return add({.kind = Node::Kind::kBytes, .operand = set_index(set), .next = next});
}

NodeId ProgramBuilder::text_start(const ByteSet& set, NodeId next) {
  const NodeId id = bytes(set, next);
  program_.nodes[id.value].begins_text = true;
  return id;
}

NodeId ProgramBuilder::literal(std::string_view text, NodeId next) {
  for (size_t i = text.size(); i-- > 0;) next = bytes(ByteSet::of(text.substr(i, 1)), next);
  return next;
}

NodeId ProgramBuilder::token(TokenId id, NodeId next) {
  return add({.kind = Node::Kind::kToken, .operand = id.value, .next = next});
}

NodeId ProgramBuilder::choice(const std::vector<NodeId>& alternatives) {
  QUIRE_CHECK(!alternatives.empty(), "a choice of nothing");
  if (alternatives.size() == 1) return alternatives.front();
  const auto first = static_cast<int32_t>(program_.alternatives.size());
  program_.alternatives.insert(program_.alternatives.end(), alternatives.begin(),
                               alternatives.end());
  return add({.kind = Node::Kind::kSplit,
              .operand = first,
              .count = static_cast<int32_t>(alternatives.size())});
}

NodeId ProgramBuilder::call(RuleId rule, NodeId next) {
  return add({.kind = Node::Kind::kCall, .operand = rule.value, .next = next});
}

NodeId ProgramBuilder::call_deeper(RuleId rule, NodeId next) {
  return add({.kind = Node::Kind::kCall, .deeper = true, .operand = rule.value, .next = next});
}

NodeId ProgramBuilder::repeat(RuleId rule, int32_t least, int32_t most, NodeId next) {
  QUIRE_CHECK(least >= 0 && least <= most, "a repetition of fewer than none");
  if (most == 0) return next;
  return add({.kind = Node::Kind::kRepeat,
              .operand = rule.value,
              .least = least,
              .most = most,
              .next = next});
}

NodeId ProgramBuilder::any_of(const std::vector<std::string>& texts, NodeId next) {
  // Sorted, texts with a common beginning are neighbours; each open node gathers its branches.
  std::vector<std::string> sorted = texts;
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::vector<NodeId>> open(1);
  std::string path;
  const auto close_to = [&](size_t depth) {
    while (path.size() > depth) {
      const NodeId inside = choice(open.back());
      open.pop_back();
      open.back().push_back(literal(path.substr(path.size() - 1), inside));
      path.pop_back();
    }
  };
  for (const std::string& text : sorted) {
    const auto [ours, theirs] = std::mismatch(path.begin(), path.end(), text.begin(), text.end());
    close_to(static_cast<size_t>(ours - path.begin()));
    path = text;
    open.resize(path.size() + 1);
    open.back().push_back(next);
  }
  close_to(0);
  return choice(open.front());
}

RuleId ProgramBuilder::declare() {
  program_.rules.push_back(NodeId{});
  return RuleId{static_cast<int32_t>(program_.rules.size()) - 1};
}

void ProgramBuilder::define(RuleId rule, NodeId entry) {
  program_.rules[rule.value] = entry;
}

RuleId ProgramBuilder::rule(NodeId entry) {
  const RuleId made = declare();
  define(made, entry);
  return made;
}

Result<Program> ProgramBuilder::seal(RuleId start) && {
  if (is_full()) {
    return Error{ErrorCode::kUsage,
                 "the schema is too large: its grammar has more than 400,000 steps"};
  }
  for (const NodeId entry : program_.rules) {
    QUIRE_CHECK(entry.value >= 0, "a rule that was never defined");
  }
  program_.start = start;
  program_.levels = find_levels(program_);
  if (program_.levels[program_.rules[start.value].value] > kMostLevels) {
    return Error{ErrorCode::kUsage,
                 "no answer of finite size satisfies the schema, or none nested at most 96 deep: a "
                 "reference to itself needs a way to end, such as an optional property"};
  }
  find_byte_classes(program_);
  return std::move(program_);
}

}  // namespace quire::engine::grammar
