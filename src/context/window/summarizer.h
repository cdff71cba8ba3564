// summarizer.h: many messages become a short text, by whoever can write one.
//
// An interface, since the context layer has no model: the built-in way extracts sentences, a model
// can be passed in. Whatever is written is lossy and is reported as such.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "context/tokenizer.h"

namespace quire::context::window {

struct SummaryInput {
  struct Piece {
    std::string ref;   // "history#3"
    std::string role;  // "user"
    std::string text;
  };
  std::vector<Piece> pieces;       // one a message, in order
  std::vector<size_t> group_ends;  // pieces[0, group_ends[0]) are the first group, and so on
  int64_t max_tokens = 0;          // of what is written
};

struct Summary {
  std::string text;
  std::string method;              // "extraction", "model"
  std::vector<std::string> notes;  // why the method is not the one asked for
  double numbers_kept = 1.0;       // share of the input's numbers that the text still has
  double names_kept = 1.0;
};

class Summarizer {
 public:
  virtual ~Summarizer() = default;
  /// At most input.max_tokens tokens by themselves. Errors are the writer's own: a model that
  /// stopped, or was interrupted.
  virtual Result<Summary> summarize(const SummaryInput& input) = 0;
};

/// Takes the sentences that say most, in their order. Deterministic, and never fails.
class ExtractiveSummarizer : public Summarizer {
 public:
  /// `tokenizer` must outlive it.
  explicit ExtractiveSummarizer(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  Result<Summary> summarize(const SummaryInput& input) override;

 private:
  const Tokenizer& tokenizer_;
};

/// Numbers with two digits or more, and words with capitals that do not begin a sentence: what a
/// summary must not lose. Each once, in order.
std::vector<std::string> numbers_in(std::string_view text);
std::vector<std::string> names_in(std::string_view text);

/// Sets the shares of numbers and names that `summary` kept of `input`.
void measure(const SummaryInput& input, Summary& summary);

}  // namespace quire::context::window
