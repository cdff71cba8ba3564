// option_parser.h: command-line options as a table: names, value, help, what to do.
//
// Our own, because common libraries split `[INST] text [/INST]` at its brackets, refuse `-ctk`, and
// lose the order of -p and -f. A value is taken whatever it looks like and byte for byte. Accepts
// `--name value`, `--name=value`, `-n8`, and `--` before positionals. Use from one thread.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire::cli {

/// Takes the spelling used and the value ("" for a flag).
using ApplyOption = std::function<Result<void>(std::string_view option, std::string_view value)>;

struct OptionSpec {
  std::vector<std::string> names;  // short first: {"-n", "--predict"}; help shows the first two
  std::string value;               // "N"; empty: a flag; "[N]": a number that may be left out
  std::string help;                // empty: accepted, but not listed
  ApplyOption apply;
};

class OptionParser {
 public:
  /// `command` as in "quire run", for sentences.
  explicit OptionParser(std::string command) : command_(std::move(command)) {}

  void heading(std::string text) { entries_.push_back({.heading = std::move(text), .spec = {}}); }
  void add(OptionSpec spec) { entries_.push_back({.heading = "", .spec = std::move(spec)}); }
  /// Where arguments that are no options go, at most `most` of them.
  void positional(std::vector<std::string>& target, size_t most);

  /// Applies everything; the first mistake as a sentence. True if --help was asked for.
  Result<bool> parse(std::span<const std::string> args);

  /// The table for people.
  std::string help() const;

 private:
  struct Entry {
    std::string heading;
    OptionSpec spec;
  };
  struct Match {
    const OptionSpec* spec = nullptr;
    std::string_view name;
    std::optional<std::string_view> value;  // attached: --name=value, -n8
  };
  const OptionSpec* find(std::string_view name) const;
  std::optional<Match> match(std::string_view arg) const;
  Result<void> take_positional(const std::string& arg);
  Error unknown(std::string_view arg) const;

  std::string command_;
  std::vector<Entry> entries_;
  std::vector<std::string>* positionals_ = nullptr;
  size_t most_positionals_ = 0;
};

// What an option does with its value.
ApplyOption set(bool& target);
ApplyOption store(std::string& target);
ApplyOption store(std::optional<std::string>& target);
ApplyOption append(std::vector<std::string>& target);
ApplyOption store_int(std::optional<int64_t>& target, int64_t least, int64_t most);
ApplyOption store_int(int64_t& target, int64_t least, int64_t most);
ApplyOption store_number(std::optional<double>& target);
/// "1,4,16": at least one.
ApplyOption store_list(std::vector<int64_t>& target, int64_t least, int64_t most);
/// Answers with a sentence: "--lora: " + why.
ApplyOption refuse(std::string why);

/// The whole of `text` as a number.
std::optional<int64_t> parse_int(std::string_view text);
std::optional<double> parse_number(std::string_view text);
/// The parts between separators; one empty part for an empty text.
std::vector<std::string_view> split(std::string_view text, char separator);

}  // namespace quire::cli
