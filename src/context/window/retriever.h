// retriever.h: which pieces of a conversation bear on its question.
//
// An interface, so that a store with an index can answer, and one that counts words by itself.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "context/window/request.h"

namespace quire::context::window {

/// A piece of the history that may be found.
struct Passage {
  int32_t message = 0;
  std::string source;  // "history#3"
  std::string text;
};

class Retriever {
 public:
  virtual ~Retriever() = default;
  /// The passages that bear on `question`, scored, at most `most`. Deterministic.
  virtual std::vector<Chunk> find(std::string_view question, const std::vector<Passage>& passages,
                                  size_t most) = 0;
};

/// BM25 (Robertson and Zaragoza 2009, k1 1.2, b 0.75) over words, and over pairs of characters
/// where a script writes none.
class WordRetriever : public Retriever {
 public:
  std::vector<Chunk> find(std::string_view question, const std::vector<Passage>& passages,
                          size_t most) override;
};

}  // namespace quire::context::window
