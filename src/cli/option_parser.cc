#include "cli/option_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "formats/printable.h"

namespace quire::cli {
namespace {

constexpr size_t kHelpColumn = 30;

/// Insertions, deletions and replacements from one to the other. // Levenshtein 1966
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

Error bad_value(std::string_view option, std::string_view wanted, std::string_view value) {
  return {ErrorCode::kUsage,
          fmt::format("{} wants {}, not '{}'", option, wanted, formats::printable(value))};
}

std::string wanted_int(int64_t least, int64_t most) {
  if (most == INT64_MAX || most == INT32_MAX) {
    return fmt::format("a whole number of at least {}", least);
  }
  return fmt::format("a whole number from {} to {}", least, most);
}

/// `text` in lines of at most `width` bytes, each after the first indented.
std::string wrapped(std::string_view text, size_t indent, size_t width) {
  std::string out;
  size_t column = 0;
  for (const std::string_view word : split(text, ' ')) {
    if (column > 0 && column + 1 + word.size() > width) {
      out += '\n' + std::string(indent, ' ');
      column = 0;
    }
    if (column > 0) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  return out;
}

}  // namespace

std::optional<int64_t> parse_int(std::string_view text) {
  int64_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<double> parse_number(std::string_view text) {
  double number = 0.0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  if (!std::isfinite(number)) return std::nullopt;
  return number;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

ApplyOption set(bool& target) {
  return [&target](std::string_view, std::string_view) -> Result<void> {
    target = true;
    return {};
  };
}

ApplyOption store(std::string& target) {
  return [&target](std::string_view, std::string_view value) -> Result<void> {
    target = value;
    return {};
  };
}

ApplyOption store(std::optional<std::string>& target) {
  return [&target](std::string_view, std::string_view value) -> Result<void> {
    target = std::string(value);
    return {};
  };
}

ApplyOption append(std::vector<std::string>& target) {
  return [&target](std::string_view, std::string_view value) -> Result<void> {
    target.emplace_back(value);
    return {};
  };
}

ApplyOption store_int(std::optional<int64_t>& target, int64_t least, int64_t most) {
  return [&target, least, most](std::string_view option, std::string_view value) -> Result<void> {
    const auto number = parse_int(value);
    if (!number || *number < least || *number > most) {
      return bad_value(option, wanted_int(least, most), value);
    }
    target = *number;
    return {};
  };
}

ApplyOption store_int(int64_t& target, int64_t least, int64_t most) {
  return [&target, least, most](std::string_view option, std::string_view value) -> Result<void> {
    std::optional<int64_t> number;
    QUIRE_TRY_VOID(store_int(number, least, most)(option, value));
    target = *number;
    return {};
  };
}

ApplyOption store_number(std::optional<double>& target) {
  return [&target](std::string_view option, std::string_view value) -> Result<void> {
    target = parse_number(value);
    if (!target) return bad_value(option, "a number", value);
    return {};
  };
}

ApplyOption store_list(std::vector<int64_t>& target, int64_t least, int64_t most) {
  return [&target, least, most](std::string_view option, std::string_view value) -> Result<void> {
    target.clear();
    for (const std::string_view part : split(value, ',')) {
      int64_t number = 0;
      QUIRE_TRY_VOID(store_int(number, least, most)(option, part));
      target.push_back(number);
    }
    return {};
  };
}

ApplyOption refuse(std::string why) {
  return [why = std::move(why)](std::string_view option, std::string_view) -> Result<void> {
    return Error{ErrorCode::kUsage, fmt::format("{}: {}", option, why)};
  };
}

void OptionParser::positional(std::vector<std::string>& target, size_t most) {
  positionals_ = &target;
  most_positionals_ = most;
}

const OptionSpec* OptionParser::find(std::string_view name) const {
  for (const Entry& entry : entries_) {
    if (std::ranges::count(entry.spec.names, name) > 0) return &entry.spec;
  }
  return nullptr;
}

std::optional<OptionParser::Match> OptionParser::match(std::string_view arg) const {
  if (const OptionSpec* spec = find(arg)) return Match{spec, arg, std::nullopt};
  const size_t equals = arg.find('=');
  if (equals != std::string_view::npos) {
    const std::string_view name = arg.substr(0, equals);
    if (const OptionSpec* spec = find(name)) return Match{spec, name, arg.substr(equals + 1)};
  }
  if (!arg.starts_with("--")) {
    const OptionSpec* spec = find(arg.substr(0, 2));
    if (spec != nullptr && !spec->value.empty())
      return Match{spec, arg.substr(0, 2), arg.substr(2)};
  }
  return std::nullopt;
}

Error OptionParser::unknown(std::string_view arg) const {
  const std::string_view name = arg.substr(0, arg.find('='));
  std::string_view nearest;
  size_t distance = 3;  // further away is another word
  for (const Entry& entry : entries_) {
    for (const std::string& candidate : entry.spec.names) {
      if (!candidate.starts_with("--") || entry.spec.help.empty()) continue;
      const size_t here = edit_distance(name, candidate);
      if (here < distance) {
        distance = here;
        nearest = candidate;
      }
    }
  }
  const std::string hint =
      nearest.empty() ? std::string() : fmt::format(" (did you mean {}?)", nearest);
  return {ErrorCode::kUsage, fmt::format("unknown option {}{}; '{} --help' lists the options",
                                         formats::printable(name), hint, command_)};
}

Result<void> OptionParser::take_positional(const std::string& arg) {
  if (positionals_ == nullptr || positionals_->size() >= most_positionals_) {
    return Error{ErrorCode::kUsage,
                 fmt::format("'{}' is one argument too many; give the prompt with -p TEXT or -f "
                             "FILE ('{} --help')",
                             formats::printable(arg), command_)};
  }
  positionals_->push_back(arg);
  return {};
}

Result<bool> OptionParser::parse(std::span<const std::string> args) {
  bool only_positionals = false;
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string& arg = args[i];
    if (only_positionals || arg.size() < 2 || arg.front() != '-') {
      QUIRE_TRY_VOID(take_positional(arg));
      continue;
    }
    if (arg == "--") {
      only_positionals = true;
      continue;
    }
    if (arg == "--help" || arg == "-h") return true;
    const auto found = match(arg);
    if (!found) return unknown(arg);
    std::string_view value;
    if (found->spec->value.empty()) {
      if (found->value) {
        return Error{ErrorCode::kUsage, fmt::format("{} takes no value", found->name)};
      }
    } else if (found->value) {
      value = *found->value;
    } else if (found->spec->value.front() == '[') {
      if (i + 1 < args.size() && parse_int(args[i + 1])) value = args[++i];
    } else if (i + 1 < args.size()) {
      value = args[++i];
    } else {
      return Error{ErrorCode::kUsage,
                   fmt::format("{} needs a value ({})", found->name, found->spec->value)};
    }
    QUIRE_TRY_VOID(found->spec->apply(found->name, value));
  }
  return false;
}

std::string OptionParser::help() const {
  std::string out;
  for (const Entry& entry : entries_) {
    if (!entry.heading.empty()) {
      out += fmt::format("\n{}:\n", entry.heading);
      continue;
    }
    const OptionSpec& spec = entry.spec;
    if (spec.help.empty()) continue;
    std::string left = "  " + spec.names[0];
    if (spec.names.size() > 1) left += ", " + spec.names[1];
    if (!spec.value.empty()) left += " " + spec.value;
    out += left;
    out += left.size() + 2 > kHelpColumn ? "\n" + std::string(kHelpColumn, ' ')
                                         : std::string(kHelpColumn - left.size(), ' ');
    out += wrapped(spec.help, kHelpColumn, 96 - kHelpColumn) + "\n";
  }
  return out;
}

}  // namespace quire::cli
