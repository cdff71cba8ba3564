#include "cli/needle_tasks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "base/hash.h"

namespace quire::cli {
namespace {

constexpr std::array<std::string_view, kNumNeedleTasks> kTaskNames = {"single", "multi", "kv",
                                                                      "distractors", "two-hop"};

constexpr std::array<std::string_view, 24> kPlaces = {
    "Paris",  "Lima",   "Oslo",   "Cairo",  "Delhi",  "Quito",   "Rome",     "Tokyo",
    "Berlin", "Madrid", "Dublin", "Vienna", "Prague", "Athens",  "Lisbon",   "Warsaw",
    "Boston", "Denver", "Sydney", "Havana", "Geneva", "Seattle", "Kingston", "Nairobi"};
constexpr std::array<std::string_view, 12> kPeople = {"Anna",  "Peter", "Maria", "David",
                                                      "Laura", "Simon", "Clara", "Henry",
                                                      "Julia", "Oscar", "Helen", "Frank"};
constexpr std::array<std::string_view, 16> kAdjectives = {
    "old",  "quiet", "green", "small", "bright", "heavy", "distant", "warm",
    "gray", "early", "broad", "plain", "gentle", "cold",  "narrow",  "late"};
constexpr std::array<std::string_view, 24> kNouns = {
    "river", "garden", "road",   "house",  "forest", "window", "bridge", "field",
    "train", "market", "hill",   "boat",   "letter", "storm",  "school", "lamp",
    "wall",  "song",   "harbor", "street", "cloud",  "valley", "meadow", "stone"};
constexpr std::array<std::string_view, 16> kVerbs = {
    "waits beside", "leads toward",  "stands near", "looks over",     "changes with", "belongs to",
    "follows",      "reminds us of", "lies behind", "grows around",   "moves past",   "rests under",
    "speaks of",    "begins beyond", "ends before", "turns away from"};

constexpr std::string_view kHeading = "Remember the facts in this text.\n\n";
constexpr int64_t kFactsOfMulti = 4;
constexpr int64_t kPairs = 8;  // of which every second is asked for
constexpr int64_t kChains = 3;
constexpr size_t kOthers = 7;  // wrong answers a question is judged against

/// Numbers from a seed and a place in the plan, independent of each other.
class Draws {
 public:
  explicit Draws(uint64_t seed) : seed_(seed) {}
  uint64_t next() {
    const std::array<uint64_t, 1> counter = {count_++};
    return hash64(std::as_bytes(std::span(counter)), seed_);
  }
  size_t below(size_t bound) { return static_cast<size_t>(next() % bound); }
  /// Four digits that were not drawn before, none of them leading zeros.
  std::string number() {
    for (;;) {
      std::string digits = fmt::format("{}", 1000 + below(9000));
      if (used_.insert(digits).second) return digits;
    }
  }
  /// `count` different entries of a list.
  template <size_t N>
  std::vector<std::string> some(const std::array<std::string_view, N>& list, size_t count) {
    std::vector<std::string> all(list.begin(), list.end());
    for (size_t i = 0; i < count; ++i) std::swap(all[i], all[i + below(all.size() - i)]);
    all.resize(count);
    return all;
  }

 private:
  uint64_t seed_;
  uint64_t count_ = 0;
  std::set<std::string> used_;
};

std::string filler_sentence(Draws& draws) {
  const size_t first = draws.below(kNouns.size());
  const size_t second = (first + 1 + draws.below(kNouns.size() - 1)) % kNouns.size();
  return fmt::format(" The {} {} {} the {} {}.", kAdjectives[draws.below(kAdjectives.size())],
                     kNouns[first], kVerbs[draws.below(kVerbs.size())],
                     kAdjectives[draws.below(kAdjectives.size())], kNouns[second]);
}

struct Fact {
  double depth = 0.0;
  std::string text;
};

struct Question {
  std::string text;  // up to where the answer begins
  std::string answer;
  double depth = 0.0;
};

/// One text: facts, and the questions to ask of it.
struct Plan {
  NeedleTask task;
  std::vector<Fact> facts;
  std::vector<Question> questions;
  std::vector<std::string> wrong;  // answers of facts that no question asks for
};

std::string magic_number_is(std::string_view place) {
  return fmt::format("The magic number of {} is", place);
}

std::string ask(std::string_view question, std::string_view beginning) {
  return fmt::format("\n\nQuestion: {}\nAnswer: {}", question, beginning);
}

Question ask_magic_number(std::string_view place, std::string answer, double depth) {
  return {ask(fmt::format("What is the magic number of {}?", place), magic_number_is(place)),
          std::move(answer), depth};
}

double evenly(int64_t index, int64_t count) {
  return count > 1 ? static_cast<double>(index) / static_cast<double>(count - 1) : 0.5;
}

Plan plan_single(Draws& draws, double depth) {
  const std::string place = draws.some(kPlaces, 1).front();
  const std::string number = draws.number();
  return {.task = NeedleTask::kSingle,
          .facts = {{depth, fmt::format(" {} {}.", magic_number_is(place), number)}},
          .questions = {ask_magic_number(place, number, depth)},
          .wrong = {}};
}

Plan plan_multi(Draws& draws) {
  Plan plan{.task = NeedleTask::kMulti, .facts = {}, .questions = {}, .wrong = {}};
  const auto places = draws.some(kPlaces, kFactsOfMulti);
  for (int64_t i = 0; i < kFactsOfMulti; ++i) {
    const double depth = evenly(i, kFactsOfMulti);
    const std::string number = draws.number();
    const std::string& place = places[static_cast<size_t>(i)];
    plan.facts.push_back({depth, fmt::format(" {} {}.", magic_number_is(place), number)});
    plan.questions.push_back(ask_magic_number(place, number, depth));
  }
  return plan;
}

Plan plan_key_value(Draws& draws) {
  Plan plan{.task = NeedleTask::kKeyValue, .facts = {}, .questions = {}, .wrong = {}};
  for (int64_t i = 0; i < kPairs; ++i) {
    const double depth = evenly(i, kPairs);
    const std::string key = draws.number();
    const std::string value = draws.number();
    plan.facts.push_back({depth, fmt::format(" Entry {} holds {}.", key, value)});
    if (i % 2 == 0) {
      plan.questions.push_back(
          {ask(fmt::format("What does entry {} hold?", key), fmt::format("Entry {} holds", key)),
           value, depth});
    } else {
      plan.wrong.push_back(value);
    }
  }
  return plan;
}

/// Half of the distractors say something else of the same place, half the same of other places.
Plan plan_distractors(Draws& draws, double depth, int64_t distractors) {
  Plan plan = plan_single(draws, depth);
  plan.task = NeedleTask::kDistractors;
  const std::string fact = plan.facts.front().text;
  std::vector<std::string> places;
  for (std::string& place : draws.some(kPlaces, kPlaces.size())) {
    if (fact.find(place) == std::string::npos) places.push_back(std::move(place));
  }
  const std::string own =
      fact.substr(fact.find("of ") + 3, fact.find(" is") - fact.find("of ") - 3);
  constexpr std::array<std::string_view, 4> kOtherNumbers = {"lucky", "secret", "house", "prize"};
  for (int64_t i = 0; i < distractors; ++i) {
    const auto index = static_cast<size_t>(i / 2);
    const std::string number = draws.number();
    const std::string text =
        i % 2 == 0 ? fmt::format(" The {} number of {} is {}.",
                                 kOtherNumbers[index % kOtherNumbers.size()], own, number)
                   : fmt::format(" {} {}.", magic_number_is(places[index % places.size()]), number);
    // Never at the fact's own place.
    plan.facts.push_back({evenly(2 * i + 1, 2 * distractors + 1), text});
    plan.wrong.push_back(number);
  }
  return plan;
}

Plan plan_two_hop(Draws& draws) {
  // Where the two facts of each chain lie: far apart, in either order, and close together.
  constexpr std::array<std::pair<double, double>, kChains> kDepths = {
      std::pair{0.05, 0.9}, std::pair{0.8, 0.15}, std::pair{0.45, 0.55}};
  Plan plan{.task = NeedleTask::kTwoHop, .facts = {}, .questions = {}, .wrong = {}};
  const auto places = draws.some(kPlaces, kChains);
  const auto people = draws.some(kPeople, kChains);
  for (size_t i = 0; i < kDepths.size(); ++i) {
    const auto& [first, second] = kDepths[i];
    const std::string number = draws.number();
    plan.facts.push_back(
        {first, fmt::format(" The key of {} is kept by {}.", places[i], people[i])});
    plan.facts.push_back({second, fmt::format(" The number of {} is {}.", people[i], number)});
    plan.questions.push_back(
        {ask(fmt::format("What is the number of the person who keeps the key of {}?", places[i]),
             fmt::format("The number of the person who keeps the key of {} is", places[i])),
         number, first});
  }
  return plan;
}

/// Wrong answers: those of the text, then numbers that it does not hold.
std::vector<std::string> others_of(const Plan& plan, const Question& question, Draws& draws) {
  std::vector<std::string> others;
  for (const Question& other : plan.questions) {
    if (other.answer != question.answer) others.push_back(other.answer);
  }
  others.insert(others.end(), plan.wrong.begin(), plan.wrong.end());
  while (others.size() < kOthers) others.push_back(draws.number());
  others.resize(kOthers);
  return others;
}

class PromptMaker {
 public:
  PromptMaker(const NeedleRules& rules, const TokenCounter& count) : rules_(rules), count_(count) {}

  Result<std::vector<NeedlePrompt>> make() {
    for (const NeedleTask task : rules_.tasks) {
      for (const int64_t length : rules_.lengths) {
        for (int64_t trial = 0; trial < rules_.trials; ++trial) {
          QUIRE_TRY_VOID(add_trial(task, length, trial));
        }
      }
    }
    return std::move(prompts_);
  }

 private:
  /// The same facts for every length, so that lengths can be compared.
  Draws draws_for(NeedleTask task, int64_t trial) const {
    const std::array<uint64_t, 3> place = {static_cast<uint64_t>(task),
                                           static_cast<uint64_t>(trial), rules_.seed};
    return Draws(hash64(std::as_bytes(std::span(place)), 1));
  }

  Result<void> add_trial(NeedleTask task, int64_t length, int64_t trial) {
    const bool has_depths = task == NeedleTask::kSingle || task == NeedleTask::kDistractors;
    if (!has_depths) {
      Draws draws = draws_for(task, trial);
      const Plan plan = task == NeedleTask::kMulti      ? plan_multi(draws)
                        : task == NeedleTask::kKeyValue ? plan_key_value(draws)
                                                        : plan_two_hop(draws);
      return add_plan(plan, length, draws);
    }
    // The deepest first: the text before a fact is shared by all that lie behind it.
    for (auto depth = rules_.depths.rbegin(); depth != rules_.depths.rend(); ++depth) {
      Draws draws = draws_for(task, trial);
      const Plan plan = task == NeedleTask::kSingle
                            ? plan_single(draws, *depth)
                            : plan_distractors(draws, *depth, rules_.distractors);
      QUIRE_TRY_VOID(add_plan(plan, length, draws));
    }
    return {};
  }

  Result<void> add_plan(const Plan& plan, int64_t length, Draws& draws) {
    int64_t room = length - count_(kHeading) - 1;  // BOS
    for (const Fact& fact : plan.facts) room -= count_(fact.text);
    int64_t longest = 0;
    for (const Question& question : plan.questions) {
      longest = std::max(longest, count_(question.text + " " + question.answer));
    }
    const int64_t sentences = sentences_within(room - longest);
    if (sentences < static_cast<int64_t>(plan.facts.size())) {
      return Error{ErrorCode::kUsage,
                   fmt::format("--lengths: {} tokens have no room for the facts of '{}'; the least "
                               "is about {}",
                               length, name(plan.task), 3 * (length - room + longest))};
    }
    const std::string text = text_of(plan, sentences);
    for (const Question& question : plan.questions) {
      prompts_.push_back({.task = plan.task,
                          .length = length,
                          .depth = question.depth,
                          .text = text + question.text,
                          .answer = question.answer,
                          .others = others_of(plan, question, draws)});
    }
    return {};
  }

  /// How many filler sentences have at most `room` tokens, one by one.
  int64_t sentences_within(int64_t room) {
    int64_t count = 0;
    for (int64_t used = 0;; ++count) {
      if (count == std::ssize(filler_)) {
        filler_.push_back(filler_sentence(filler_draws_));
        filler_tokens_.push_back(count_(filler_.back()));
      }
      used += filler_tokens_[static_cast<size_t>(count)];
      if (used > room) return count;
    }
  }

  std::string text_of(const Plan& plan, int64_t sentences) const {
    std::multimap<int64_t, std::string_view> facts;
    for (const Fact& fact : plan.facts) {
      facts.emplace(std::llround(fact.depth * static_cast<double>(sentences)), fact.text);
    }
    std::string text(kHeading);
    for (int64_t i = 0; i <= sentences; ++i) {
      const auto [begin, end] = facts.equal_range(i);
      for (auto fact = begin; fact != end; ++fact) text += fact->second;
      if (i < sentences) text += filler_[static_cast<size_t>(i)];
    }
    return text;
  }

  const NeedleRules& rules_;
  const TokenCounter& count_;
  Draws filler_draws_{7};
  std::vector<std::string> filler_;  // the same for all texts
  std::vector<int64_t> filler_tokens_;
  std::vector<NeedlePrompt> prompts_;
};

}  // namespace

std::string_view name(NeedleTask task) {
  return kTaskNames[static_cast<size_t>(task)];
}

std::optional<NeedleTask> needle_task(std::string_view name) {
  const auto found = std::ranges::find(kTaskNames, name);
  if (found == kTaskNames.end()) return std::nullopt;
  return static_cast<NeedleTask>(found - kTaskNames.begin());
}

Result<std::vector<NeedlePrompt>> make_needle_prompts(const NeedleRules& rules,
                                                      const TokenCounter& count) {
  return PromptMaker(rules, count).make();
}

}  // namespace quire::cli
