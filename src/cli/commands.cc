#include "cli/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cli/exit_code.h"
#include "cli/interrupt.h"
#include "cli/option_parser.h"
#include "cli/version.h"
#include "formats/printable.h"

namespace quire::cli {
namespace {

constexpr std::array kCommands = {
    &kRunCommand,     &kChatCommand,     &kTokensCommand,   &kScoreCommand,
    &kInfoCommand,    &kInspectCommand,  &kVerifyCommand,   &kPlanCommand,
    &kBenchCommand,   &kQuantizeCommand, &kHistoryCommand,  &kDocsCommand,
    &kNeedlesCommand, &kServeCommand,    &kLoadtestCommand, &kWindowCommand};

void print(std::FILE* stream, const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stream);
}

std::string overview() {
  std::string text = fmt::format(
      "quire {}: run language models on this machine, with an exact cache of keys and values\n\n"
      "usage: quire COMMAND MODEL [options]\n\n"
      "MODEL is a GGUF file, a Hugging Face folder, or a name in "
      "$QUIRE_HOME/models.\n\ncommands:\n",
      version());
  for (const Command* command : kCommands) {
    text += fmt::format("  {:<8} {}\n", command->name, command->summary);
  }
  text +=
      "\n'quire COMMAND --help' shows a command's options and an example; 'quire --version' the "
      "version.\n";
  return text;
}

std::string command_list() {
  std::string list;
  for (const Command* command : kCommands) {
    list += (list.empty() ? "" : ", ") + std::string(command->name);
  }
  return list;
}

int fail(const Environment& env, const Error& error) {
  if (!error.message.empty()) print(env.err, fmt::format("quire: {}\n", error.message));
  return exit_code(error.code);
}

}  // namespace

Result<bool> parse_or_help(const Command& command, const Environment& env, OptionParser& parser,
                           std::span<const std::string> args) {
  QUIRE_TRY(const bool help, parser.parse(args));
  if (!help) return false;
  print(env.out,
        fmt::format("quire {0}: {1}\n\nusage: quire {0} {2}\n\nexample:\n{3}{4}", command.name,
                    command.summary, command.arguments, command.example, parser.help()));
  return true;
}

int run_program(const Environment& env, std::span<const std::string> args) {
  if (args.empty()) {
    print(env.err, overview());
    return exit_code(ErrorCode::kUsage);
  }
  const std::string& name = args.front();
  if (name == "--help" || name == "-h" || name == "help") {
    print(env.out, overview());
    return 0;
  }
  if (name == "--version" || name == "version") {
    print(env.out, fmt::format("quire {}\n", version()));
    return 0;
  }
  const auto found = std::ranges::find(kCommands, name, &Command::name);
  if (found == kCommands.end()) {
    return fail(env, {ErrorCode::kUsage, fmt::format("unknown command '{}'; commands: {}",
                                                     formats::printable(name), command_list())});
  }
  install_interrupt_handler();
  const Result<void> done = (*found)->run(**found, env, args.subspan(1));
  return done.ok() ? 0 : fail(env, done.error());
}

}  // namespace quire::cli
