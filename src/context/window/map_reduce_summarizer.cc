#include "context/window/map_reduce_summarizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "context/window/cut_text.h"

namespace quire::context::window {
namespace {

constexpr std::string_view kInstruction =
    "Summarise this conversation in short plain sentences. Keep decisions, open points, numbers, "
    "names and file names exactly as they are. Write only the summary.";
/// A text that says the same so many words so many times over runs in a loop.
constexpr size_t kLoopWords = 4;
constexpr int64_t kLoopTimes = 4;
/// Facts are missed only where there are some to keep.
constexpr size_t kEnoughFacts = 10;
constexpr double kLeastFactsKept = 0.1;

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = text.find_first_not_of(" \n\t", at);
    if (begin == std::string_view::npos) break;
    const size_t end = std::min(text.find_first_of(" \n\t", begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    at = end;
  }
  return words;
}

bool runs_in_a_loop(std::string_view text) {
  const std::vector<std::string_view> words = words_of(text);
  std::map<std::string, int64_t> runs;
  for (size_t i = 0; i + kLoopWords <= words.size(); ++i) {
    std::string run;
    for (size_t w = 0; w < kLoopWords; ++w) run += std::string(words[i + w]) + " ";
    if (++runs[run] >= kLoopTimes) return true;
  }
  return false;
}

size_t count_facts(const SummaryInput& input,
                   std::vector<std::string> (*facts_in)(std::string_view)) {
  size_t count = 0;
  for (const SummaryInput::Piece& piece : input.pieces) count += facts_in(piece.text).size();
  return count;
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \n\t\r") == std::string_view::npos;
}

}  // namespace

std::string joined_text(const SummaryInput& input) {
  std::string text;
  for (const SummaryInput::Piece& piece : input.pieces) {
    text += piece.role.empty() ? piece.text + "\n" : piece.role + ": " + piece.text + "\n";
  }
  return text;
}

std::optional<std::string> problem_of(const Tokenizer& tokenizer, const SummaryInput& input,
                                      std::string_view text) {
  if (is_blank(text)) return "it was empty";
  if (count_text(tokenizer, text) > input.max_tokens) return "it was too long";
  if (runs_in_a_loop(text)) return "it ran in a loop";
  Summary measured;
  measured.text = text;
  measure(input, measured);
  if (count_facts(input, numbers_in) >= kEnoughFacts && measured.numbers_kept < kLeastFactsKept) {
    return "it dropped the numbers";
  }
  if (count_facts(input, names_in) >= kEnoughFacts && measured.names_kept < kLeastFactsKept) {
    return "it dropped the names";
  }
  return std::nullopt;
}

/// Whole groups together, as many as the writer can read; a piece that is too long by itself is
/// read in parts.
std::vector<SummaryInput> MapReduceSummarizer::chunks_of(const SummaryInput& input) const {
  const int64_t most = std::max<int64_t>(writer_.most_input_tokens(), 16);
  std::vector<SummaryInput> chunks(1);
  int64_t filled = 0;
  size_t begin = 0;
  for (const size_t end : input.group_ends) {
    int64_t tokens = 0;
    for (size_t p = begin; p < end; ++p) tokens += count_text(tokenizer_, input.pieces[p].text) + 4;
    if (filled > 0 && filled + tokens > most) {
      chunks.emplace_back();
      filled = 0;
    }
    for (size_t p = begin; p < end; ++p) {
      std::string_view rest = input.pieces[p].text;
      do {
        const std::string_view part = first_tokens(tokenizer_, rest, most - 4);
        const int64_t size = count_text(tokenizer_, part) + 4;
        if (filled > 0 && filled + size > most) {
          chunks.emplace_back();
          filled = 0;
        }
        chunks.back().pieces.push_back(
            {input.pieces[p].ref, input.pieces[p].role, std::string(part)});
        filled += size;
        if (part.empty()) break;
        rest.remove_prefix(part.size());
      } while (!rest.empty());
    }
    begin = end;
  }
  for (SummaryInput& chunk : chunks) {
    chunk.group_ends = {chunk.pieces.size()};
    chunk.max_tokens = std::max<int64_t>(count_text(tokenizer_, joined_text(chunk)) / 4, 1);
  }
  return chunks;
}

/// By the writer, or by extraction if what it wrote will not do.
Result<std::string> MapReduceSummarizer::write_checked(const SummaryInput& input,
                                                       Summary& summary) {
  auto text = writer_.write(kInstruction, joined_text(input), input.max_tokens);
  // Without room for the model to write in, compaction still goes on.
  if (!text.ok() && text.error().code != ErrorCode::kDoesNotFit) return text;
  const auto problem = text.ok() ? problem_of(tokenizer_, input, *text)
                                 : std::optional<std::string>("there was no room to write it");
  if (!problem) return text;
  summary.notes.push_back(
      fmt::format("a summary by the model was thrown away because {}; sentences were extracted "
                  "instead",
                  *problem));
  QUIRE_TRY(const Summary extracted, ExtractiveSummarizer(tokenizer_).summarize(input));
  summary.method = "extraction";
  return extracted.text;
}

Result<Summary> MapReduceSummarizer::summarize(const SummaryInput& input) {
  Summary summary;
  summary.method = "model";
  SummaryInput round = input;
  // Each round leaves a quarter at most, so that there are few.
  while (true) {
    std::vector<SummaryInput> chunks = chunks_of(round);
    const bool last = chunks.size() == 1;
    if (last) chunks.front().max_tokens = std::min(chunks.front().max_tokens, input.max_tokens);
    SummaryInput next;
    for (const SummaryInput& chunk : chunks) {
      QUIRE_TRY(std::string text, write_checked(chunk, summary));
      next.pieces.push_back({chunk.pieces.front().ref, "", std::move(text)});
      next.group_ends.push_back(next.pieces.size());
    }
    if (last) {
      summary.text = next.pieces.front().text;
      break;
    }
    if (count_text(tokenizer_, joined_text(next)) <= input.max_tokens) {
      summary.text = joined_text(next);
      break;
    }
    round = std::move(next);
  }
  summary.text = std::string(first_tokens(tokenizer_, summary.text, input.max_tokens));
  measure(input, summary);
  return summary;
}

}  // namespace quire::context::window
