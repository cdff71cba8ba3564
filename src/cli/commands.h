// commands.h: what `quire COMMAND` can be.
//
// Each command is one file: it declares its options, runs, and prints. A Result's error becomes one
// sentence on stderr and an exit code (exit_code.h). Thread rule: called once, from main.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/environment.h"

namespace quire::cli {

class OptionParser;

struct Command {
  std::string_view name;
  std::string_view arguments;  // "MODEL [options]"
  std::string_view summary;
  std::string_view example;  // lines as a user would type them
  Result<void> (*run)(const Command& self, const Environment& env,
                      std::span<const std::string> args);
};

extern const Command kRunCommand;
extern const Command kChatCommand;
extern const Command kTokensCommand;
extern const Command kScoreCommand;
extern const Command kInfoCommand;
extern const Command kInspectCommand;
extern const Command kVerifyCommand;
extern const Command kBenchCommand;
extern const Command kLoadtestCommand;
extern const Command kPlanCommand;
extern const Command kQuantizeCommand;
extern const Command kHistoryCommand;
extern const Command kServeCommand;
extern const Command kDocsCommand;
extern const Command kNeedlesCommand;
extern const Command kWindowCommand;

/// Parses; true if the command has been dealt with because --help was asked for.
Result<bool> parse_or_help(const Command& command, const Environment& env, OptionParser& parser,
                           std::span<const std::string> args);

/// The whole program. Returns the exit code.
int run_program(const Environment& env, std::span<const std::string> args);

}  // namespace quire::cli
