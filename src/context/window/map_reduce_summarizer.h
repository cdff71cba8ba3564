// map_reduce_summarizer.h: summaries by a model, checked, with extraction behind them.
//
// Groups are summarised in chunks that the model can read, and what was written is summarised again
// until it fits; every text is at most a quarter of what it was made from. One that is empty, too
// long, runs in a loop or drops the facts is thrown away, and sentences are extracted instead; a
// note says so. The model is an interface: the context layer has none. One thread at a time.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "context/window/summarizer.h"

namespace quire::context::window {

/// Whoever follows an instruction about a text: a model.
class TextWriter {
 public:
  virtual ~TextWriter() = default;
  /// At most `max_tokens` tokens. Errors end the summary: interrupted, out of memory.
  virtual Result<std::string> write(std::string_view instruction, std::string_view text,
                                    int64_t max_tokens) = 0;
  /// Tokens of text that it can read at once.
  virtual int64_t most_input_tokens() const = 0;
};

class MapReduceSummarizer : public Summarizer {
 public:
  /// Both must outlive it.
  MapReduceSummarizer(const Tokenizer& tokenizer, TextWriter& writer)
      : tokenizer_(tokenizer), writer_(writer) {}
  Result<Summary> summarize(const SummaryInput& input) override;

 private:
  Result<std::string> write_checked(const SummaryInput& input, Summary& summary);
  std::vector<SummaryInput> chunks_of(const SummaryInput& input) const;

  const Tokenizer& tokenizer_;
  TextWriter& writer_;
};

/// What is wrong with a summary of `input`, in a few words; nothing if it will do.
std::optional<std::string> problem_of(const Tokenizer& tokenizer, const SummaryInput& input,
                                      std::string_view text);

/// "user: ...\nassistant: ...\n".
std::string joined_text(const SummaryInput& input);

}  // namespace quire::context::window
