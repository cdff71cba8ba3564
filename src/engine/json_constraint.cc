#include "engine/json_constraint.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "engine/grammar/automaton.h"
#include "engine/grammar/json_rules.h"
#include "engine/grammar/json_schema.h"
#include "engine/grammar/token_trie.h"
#include "engine/grammar/tool_grammar.h"

namespace quire::engine {

using formats::Json;
using grammar::Automaton;
using grammar::JsonRules;
using grammar::NodeId;
using grammar::ProgramBuilder;
using grammar::RuleId;
using grammar::TokenSet;

/// What all constraints of one vocabulary share.
struct ConstraintVocabulary {
  const context::Tokenizer* tokenizer;
  std::vector<TokenId> ends;  // ascending
  grammar::TokenTrie trie;

  bool is_end(TokenId token) const { return std::binary_search(ends.begin(), ends.end(), token); }

  grammar::Alphabet alphabet() const {
    return {.unicode = trie.spells_unicode(), .line_feed = trie.spells('\n')};
  }
};

namespace {

constexpr float kForbidden = -std::numeric_limits<float>::infinity();
/// States and masks that are kept of one grammar: some 20 MB, and 32.
constexpr int64_t kMostStates = 20'000;
constexpr size_t kMostMaskBytes = 32 << 20;

/// An automaton and the masks of its states.
struct Learned {
  explicit Learned(const grammar::Program& program) : automaton(program) {}
  Automaton automaton;
  std::unordered_map<Automaton::StateId, TokenSet> masks;
};

/// A grammar, and what was learned of it; the constraints of one request share it.
class SharedGrammar {
 public:
  SharedGrammar(grammar::Program program, std::shared_ptr<const ConstraintVocabulary> vocabulary)
      : program_(std::move(program)),
        vocabulary_(std::move(vocabulary)),
        learned_(std::make_shared<Learned>(program_)) {}

  /// How far an answer has come.
  struct Place {
    std::shared_ptr<Learned> learned;  // shared: what has grown too large lives until all left it
    Automaton::StateId state = 0;
    bool ended = false;
  };

  Place start() {
    const std::scoped_lock lock(mutex_);
    return {learned_, learned_->automaton.start()};
  }

  void mask(Place& place, std::span<float> logits) {
    const std::scoped_lock lock(mutex_);
    if (place.ended) {
      forbid_others(end_set(), logits);
      return;
    }
    move_to_current(place);
    forbid_others(mask_of(place), logits);
  }

  void accept(Place& place, TokenId token) {
    const std::scoped_lock lock(mutex_);
    if (place.ended) return;
    Automaton& automaton = place.learned->automaton;
    if (vocabulary_->is_end(token)) {
      QUIRE_CHECK(automaton.is_complete(place.state), "an answer ended before it was complete");
      place.ended = true;
      return;
    }
    Automaton::StateId next = automaton.step_token(place.state, token);
    if (next == Automaton::kDead) {
      next = place.state;
      for (const char byte : vocabulary_->tokenizer->piece(token)) {
        if (next != Automaton::kDead) next = automaton.step(next, static_cast<uint8_t>(byte));
      }
    }
    QUIRE_CHECK(next != Automaton::kDead, "a token was chosen that the constraint forbids");
    place.state = next;
  }

 private:
  static void forbid_others(const TokenSet& allowed, std::span<float> logits) {
    const auto words = allowed.words();
    for (size_t i = 0; i < logits.size(); i += 64) {
      const uint64_t word = i / 64 < words.size() ? words[i / 64] : 0;
      if (word == ~uint64_t{0}) continue;
      const size_t count = std::min<size_t>(64, logits.size() - i);
      if (word == 0) {
        std::fill_n(logits.begin() + static_cast<int64_t>(i), count, kForbidden);
        continue;
      }
      for (size_t bit = 0; bit < count; ++bit) {
        if ((word >> bit & 1) == 0) logits[i + bit] = kForbidden;
      }
    }
  }

  TokenSet end_set() const {
    TokenSet set(vocabulary_->trie.vocab());
    for (const TokenId end : vocabulary_->ends) set.add(end);
    return set;
  }

  /// When too much was learned, starts anew from where `place` is.
  void move_to_current(Place& place) {
    if (learned_->automaton.num_states() > kMostStates) {
      learned_ = std::make_shared<Learned>(program_);
    }
    if (place.learned == learned_) return;
    place.state = learned_->automaton.adopt(place.learned->automaton, place.state);
    place.learned = learned_;
  }

  const TokenSet& mask_of(const Place& place) {
    auto& masks = place.learned->masks;
    const auto known = masks.find(place.state);
    if (known != masks.end()) return known->second;
    Automaton& automaton = place.learned->automaton;
    TokenSet allowed = vocabulary_->trie.allowed(automaton, place.state);
    for (const TokenId token : automaton.named_tokens(place.state)) allowed.add(token);
    if (automaton.is_complete(place.state)) {
      for (const TokenId end : vocabulary_->ends) allowed.add(end);
    }
    QUIRE_CHECK(!allowed.empty(), "a constrained answer is stuck");
    const size_t bytes = allowed.words().size_bytes();
    if (masks.size() * bytes > kMostMaskBytes) masks.clear();
    return masks.insert_or_assign(place.state, std::move(allowed)).first->second;
  }

  const grammar::Program program_;
  const std::shared_ptr<const ConstraintVocabulary> vocabulary_;  // shared: see JsonConstraints
  std::mutex mutex_;  // of learned_ and all that was learned, older ones' too
  std::shared_ptr<Learned> learned_;
};

class GrammarConstraint final : public TokenConstraint {
 public:
  explicit GrammarConstraint(std::shared_ptr<SharedGrammar> grammar)
      : grammar_(std::move(grammar)), place_(grammar_->start()) {}

  void mask(std::span<float> logits) override { grammar_->mask(place_, logits); }
  void accept(TokenId token) override { grammar_->accept(place_, token); }
  std::unique_ptr<TokenConstraint> fresh() const override {
    return std::make_unique<GrammarConstraint>(grammar_);
  }

 private:
  std::shared_ptr<SharedGrammar> grammar_;  // shared: by the choices of a request
  SharedGrammar::Place place_;
};

/// At most `most` line feeds, or a space.
NodeId leading_blanks(JsonRules& rules, int32_t most, NodeId next) {
  ProgramBuilder& builder = rules.builder();
  std::vector<NodeId> ways = {next, builder.literal(" ", next)};
  if (rules.alphabet().line_feed) {
    const RuleId line = builder.rule(builder.literal("\n", builder.done()));
    ways.push_back(builder.repeat(line, 1, most, next));
  }
  return builder.choice(ways);
}

/// What may come before `answer`.
RuleId whole_answer(JsonRules& rules, const context::Tokenizer& tokenizer, const AnswerStart& start,
                    RuleId answer) {
  ProgramBuilder& builder = rules.builder();
  const NodeId answered = builder.call(answer, builder.done());
  const std::string& closer = start.reasoning_closer;
  if (closer.empty()) return builder.rule(leading_blanks(rules, 1, answered));
  const NodeId after = leading_blanks(rules, 2, answered);
  const auto token = tokenizer.find(closer);
  if (!token || !tokenizer.is_control(*token)) {
    return builder.rule(rules.text_until(closer, after));
  }
  const RuleId byte = builder.rule(builder.bytes(grammar::ByteSet::range(0, 255), builder.done()));
  return builder.rule(builder.repeat(byte, 0, grammar::kUnbounded, builder.token(*token, after)));
}

/// Builds a grammar with `write`, which returns the rule of the answer itself.
template <class Write>
Result<std::unique_ptr<TokenConstraint>> constraint_of(
    const std::shared_ptr<const ConstraintVocabulary>& vocabulary, const AnswerStart& start,
    const Write& write) {
  ProgramBuilder builder;
  JsonRules rules(builder, vocabulary->alphabet());
  QUIRE_TRY(const RuleId answer, write(rules));
  const RuleId whole = whole_answer(rules, *vocabulary->tokenizer, start, answer);
  QUIRE_TRY(grammar::Program program, std::move(builder).seal(whole));
  auto shared = std::make_shared<SharedGrammar>(std::move(program), vocabulary);
  return std::unique_ptr<TokenConstraint>(std::make_unique<GrammarConstraint>(std::move(shared)));
}

}  // namespace

AnswerStart answer_start(const context::AnswerFormat& format, std::string_view prompt) {
  const auto without_blanks = [](std::string_view text) {
    return text.substr(0, text.find_last_not_of(" \n\r\t") + 1);
  };
  const auto& tags = format.reasoning_tags;
  if (!tags || tags->first.empty() || tags->second.empty()) return {};
  const bool opened = without_blanks(prompt).ends_with(without_blanks(tags->first));
  return {.reasoning_closer = opened ? tags->second : ""};
}

JsonConstraints::JsonConstraints(std::shared_ptr<const ConstraintVocabulary> vocabulary)
    : vocabulary_(std::move(vocabulary)) {}
JsonConstraints::JsonConstraints(JsonConstraints&&) noexcept = default;
JsonConstraints& JsonConstraints::operator=(JsonConstraints&&) noexcept = default;
JsonConstraints::~JsonConstraints() = default;

Result<JsonConstraints> JsonConstraints::create(const context::Tokenizer& tokenizer,
                                                std::span<const TokenId> end_tokens) {
  const auto own = tokenizer.end_of_generation();
  std::vector<TokenId> ends(own.begin(), own.end());
  ends.insert(ends.end(), end_tokens.begin(), end_tokens.end());
  std::erase_if(ends, [&](TokenId id) { return !tokenizer.is_valid(id); });
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  if (ends.empty()) {
    return Error{
        ErrorCode::kUnsupported,
        "this model's vocabulary has no token that ends an answer, so its answers cannot be "
        "held to a format"};
  }
  QUIRE_TRY(grammar::TokenTrie trie, grammar::TokenTrie::create(tokenizer, ends));
  return JsonConstraints(std::make_shared<const ConstraintVocabulary>(
      ConstraintVocabulary{&tokenizer, std::move(ends), std::move(trie)}));
}

Result<std::unique_ptr<TokenConstraint>> JsonConstraints::schema(const Json& schema,
                                                                 const AnswerStart& start) const {
  return constraint_of(vocabulary_, start,
                       [&](JsonRules& rules) { return grammar::json_schema_rule(rules, schema); });
}

Result<std::unique_ptr<TokenConstraint>> JsonConstraints::any_object(
    const AnswerStart& start) const {
  return constraint_of(vocabulary_, start, [&](JsonRules& rules) {
    ProgramBuilder& builder = rules.builder();
    return Result<RuleId>(builder.rule(rules.any_object(builder.done())));
  });
}

Result<std::unique_ptr<TokenConstraint>> JsonConstraints::tool_calls(
    context::ToolCallFormat format, std::string_view template_source, const Json& tools,
    const ToolChoice& choice, const AnswerStart& start) const {
  const grammar::CallWriting writing{format, template_source, vocabulary_->tokenizer};
  return constraint_of(vocabulary_, start, [&](JsonRules& rules) {
    return grammar::tool_calls_rule(rules, writing, tools, choice);
  });
}

}  // namespace quire::engine
