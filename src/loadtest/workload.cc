#include "loadtest/workload.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <random>
#include <string_view>

namespace quire::loadtest {
namespace {

constexpr auto kWords = std::to_array<std::string_view>(
    {"the",     "river",  "house",  "green",  "stone",  "light", "water", "paper",
     "morning", "winter", "summer", "garden", "window", "road",  "small", "large",
     "quiet",   "letter", "market", "music",  "bread",  "story", "night", "table",
     "field",   "silver", "north",  "south",  "island", "bridge"});

std::string words(std::mt19937_64& random, int64_t count) {
  std::string text;
  for (int64_t i = 0; i < count; ++i) {
    if (i > 0) text += ' ';
    text += kWords[random() % kWords.size()];
  }
  return text;
}

}  // namespace

Conversation make_conversation(const Workload& workload, uint64_t index) {
  std::mt19937_64 shared(workload.seed);
  std::mt19937_64 own(workload.seed * 1'000'003 + index + 1);
  Conversation conversation;
  if (workload.shared_words > 0) {
    conversation.system = "Answer briefly. " + words(shared, workload.shared_words);
  }
  for (int64_t turn = 0; turn < workload.turns; ++turn) {
    // The number first, so that no two conversations share the beginning of a question.
    conversation.questions.push_back(fmt::format("{}-{}-{} {}. Go on.", workload.seed, index, turn,
                                                 words(own, workload.prompt_words)));
  }
  return conversation;
}

std::vector<double> arrival_times(double rate, int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<double> times;
  double now = 0.0;
  for (int64_t i = 0; i < count; ++i) {
    times.push_back(now);
    const double uniform = static_cast<double>(random() >> 11) * 0x1p-53;
    now += -std::log1p(-uniform) / rate;
  }
  return times;
}

}  // namespace quire::loadtest
