// workload.h: what is asked: conversations made of common words, the same for the same seed.
//
// Lengths are in words of the generator's list, each about one token for common vocabularies; what
// a server counted stands in the results. Pure functions; any thread.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace quire::loadtest {

struct Workload {
  int64_t shared_words = 0;    // of a system message that all conversations share
  int64_t prompt_words = 200;  // of each user message, different each time
  int64_t turns = 1;  // user messages of a conversation; each sees all that was said before
  uint64_t seed = 0;
};

struct Conversation {
  std::string system;  // empty: none
  std::vector<std::string> questions;
};

/// The `index`th conversation.
Conversation make_conversation(const Workload& workload, uint64_t index);

/// Seconds from the beginning at which requests arrive: `count` of them, at random, `rate` a second
/// on average (a Poisson process). Ascending.
std::vector<double> arrival_times(double rate, int64_t count, uint64_t seed);

}  // namespace quire::loadtest
