// constrained_answer.h: answers that a model without any sense would give under a constraint.
//
// And the vocabularies to give them in. Plain functions for tests.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "context/tokenizer.h"
#include "engine/json_constraint.h"

namespace quire::engine {

using Random = std::mt19937_64;

inline formats::Json parsed(std::string_view text) {
  return formats::Json::parse(text, "a test").value();
}

inline std::optional<context::Tokenizer> tokenizer_of(const std::string& folder) {
  FileSystem& files = real_file_system();
  if (!files.is_file(folder + "/tokenizer.json")) return std::nullopt;
  const auto read = [&](const char* name) {
    return files.read(folder + "/" + name, uint64_t{1} << 28).value();
  };
  return context::Tokenizer::from_json(read("tokenizer.json"), read("tokenizer_config.json"))
      .value();
}

/// 323 tokens: every byte and some English. Loaded once.
inline const context::Tokenizer& tiny_vocabulary() {
  static const context::Tokenizer kTiny =
      *tokenizer_of(QUIRE_SOURCE_DIR "/tests/data/tiny/llama_tied");
  return kTiny;
}

inline size_t below(Random& random, size_t limit) {
  return random() % limit;
}

/// The ids that a constraint allows next, ascending.
inline std::vector<TokenId> allowed_tokens(TokenConstraint& constraint, int32_t vocab) {
  std::vector<float> logits(static_cast<size_t>(vocab), 0.0F);
  constraint.mask(logits);
  std::vector<TokenId> allowed;
  for (int32_t id = 0; id < vocab; ++id) {
    if (!std::isinf(logits[id])) allowed.push_back(TokenId{id});
  }
  return allowed;
}

struct RandomAnswer {
  std::string text;
  bool finished = false;
  int32_t tokens = 0;
};

/// Draws tokens evenly from what is allowed: at first any, after `wild_tokens` those that close
/// something where there are some, seven times of eight.
inline RandomAnswer random_answer(const context::Tokenizer& tokenizer, TokenConstraint& constraint,
                                  Random& random, int32_t wild_tokens) {
  constexpr int32_t kMostTokens = 4000;
  RandomAnswer answer;
  for (; answer.tokens < kMostTokens; ++answer.tokens) {
    std::vector<TokenId> allowed = allowed_tokens(constraint, tokenizer.vocab_size() + 3);
    if (allowed.empty()) {
      ADD_FAILURE() << "nothing may follow " << answer.text;
      return answer;
    }
    if (answer.tokens >= wild_tokens && below(random, 8) != 0) {
      for (const std::string_view closing : {"<end>", "\"", "}", "]", "e", "l", "0"}) {
        std::vector<TokenId> closers;
        for (const TokenId id : allowed) {
          const bool end = tokenizer.is_end_of_generation(id);
          if (closing == "<end>" ? end : !end && tokenizer.piece(id) == closing) {
            closers.push_back(id);
          }
        }
        if (closers.empty()) continue;
        allowed = closers;
        break;
      }
    }
    const TokenId chosen = allowed[below(random, allowed.size())];
    constraint.accept(chosen);
    if (tokenizer.is_end_of_generation(chosen)) {
      answer.finished = true;
      return answer;
    }
    answer.text += tokenizer.piece(chosen);
  }
  return answer;
}

/// Whether the constraint lets exactly this be the whole answer, token by token of its encoding.
inline bool permits(const context::Tokenizer& tokenizer, const TokenConstraint& constraint,
                    std::string_view text) {
  const auto own = constraint.fresh();
  const int32_t vocab = tokenizer.vocab_size();
  for (const TokenId id : tokenizer.encode(text, context::Special::kParse)) {
    std::vector<float> logits(static_cast<size_t>(vocab), 0.0F);
    own->mask(logits);
    if (std::isinf(logits[id.value])) return false;
    own->accept(id);
  }
  std::vector<float> logits(static_cast<size_t>(vocab), 0.0F);
  own->mask(logits);
  return !std::isinf(logits[tokenizer.end_of_generation().front().value]);
}

}  // namespace quire::engine
