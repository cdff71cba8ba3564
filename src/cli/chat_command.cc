// chat: a conversation on the terminal, or over pipes: a message a line.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cli/chat_session.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/line_editor.h"
#include "cli/option_parser.h"
#include "cli/shown_answer.h"
#include "cli/terminal.h"
#include "formats/printable.h"

namespace quire::cli {
namespace {

constexpr std::string_view kHelp =
    "/help            this list\n"
    "/system [TEXT]   set the system message; without TEXT remove it\n"
    "/undo [HANDLE]   take back the last message and its answer; HANDLE: a compaction\n"
    "/edit [TEXT]     change the last message and ask again\n"
    "/retry           another answer to the last message, with the next seed\n"
    "/clear           start afresh; the system message stays\n"
    "/save FILE       write the conversation as JSON\n"
    "/load FILE       go on with a saved conversation\n"
    "/stats           tokens read, cached and written in each turn, and memory\n"
    "/window          how full the context window is, part by part\n"
    "/policy [NAME]   what to do with turns that no longer fit (reject, auto, summarize, ...)\n"
    "/pin N           keep message N whatever happens\n"
    "/drop N          leave the turn of message N out of what the model sees\n"
    "/exit            leave (or Ctrl-D)\n"
    "\"\"\" begins and ends a message of several lines; Alt-Enter breaks a line; Ctrl-C stops an "
    "answer.\n";

/// Shows an answer as it streams in.
class AnswerPrinter {
 public:
  AnswerPrinter(const engine::Model& model, Output& output, Style style, bool hide_reasoning)
      : model_(model),
        output_(output),
        style_(style),
        reasoning_(hide_reasoning ? Reasoning::kHidden : Reasoning::kShown) {}

  ChatSession::Listener listener() {
    return {.on_prompt =
                [this](std::string_view prompt) {
                  const auto& tags = model_.chat_template()->traits().reasoning_tags;
                  answer_.emplace(tags, prompt, style_, reasoning_);
                },
            .on_text = [this](std::string_view text) { show(answer_->push(text)); }};
  }

  void end() {
    if (answer_) show(answer_->finish());
    answer_.reset();
    if (!at_line_start_) output_.text("\n");
    at_line_start_ = true;
  }

 private:
  void show(const std::string& text) {
    if (text.empty()) return;
    output_.text(text);
    at_line_start_ = text.ends_with('\n');
  }

  const engine::Model& model_;
  Output& output_;
  Style style_;
  Reasoning reasoning_;
  std::optional<ShownAnswer> answer_;
  bool at_line_start_ = true;
};

std::string trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\n");
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(" \t\n") - begin + 1));
}

class ChatLoop {
 public:
  ChatLoop(const Environment& env, const ChatOptions& options, Output& output, ChatSession& session)
      : output_(output),
        session_(session),
        editor_(env),
        printer_(session.model(), output, style_for(env, env.out), options.hide_reasoning) {}

  Result<void> execute() {
    if (editor_.on_terminal()) {
      output_.remark(fmt::format("{} is ready; /help lists commands", session_.model().path()));
    }
    while (!done_) {
      const LineEditor::Input input = editor_.read("> ");
      if (input.kind == LineEditor::Input::Kind::kEndOfFile) break;
      if (input.kind == LineEditor::Input::Kind::kInterrupted) {
        if (!editor_.on_terminal()) return Error{ErrorCode::kInterrupted, ""};
        clear_interrupt();
        output_.remark("Ctrl-D or /exit leaves");
        continue;
      }
      handle(input.text);
    }
    QUIRE_TRY_VOID(session_.finish());
    return output_.finish({});
  }

 private:
  void handle(const std::string& text) {
    if (trimmed(text).empty()) return;
    if (text.front() == '/') {
      command(text);
    } else {
      say(text);
    }
  }

  void say(const std::string& text) { finish_turn(session_.say(text, printer_.listener())); }

  void finish_turn(const Result<engine::FinishReason>& finish) {
    printer_.end();
    clear_interrupt();
    if (!finish.ok()) {
      complain(finish.error());
    } else if (*finish == engine::FinishReason::kInterrupted) {
      output_.remark("[stopped]");
    } else if (*finish == engine::FinishReason::kLength) {
      output_.remark("[cut off by -n or the window's end]");
    }
  }

  void complain(const Error& error) { output_.complaint(error.message); }

  void report(const Result<void>& done, std::string_view success) {
    if (done.ok()) {
      output_.remark(success);
    } else {
      complain(done.error());
    }
  }

  void say_or_complain(const Result<std::string>& done) {
    if (!done.ok()) return complain(done.error());
    output_.remark(*done);
  }

  void command(const std::string& line) {
    const size_t blank = line.find_first_of(" \n");
    const std::string name = line.substr(0, blank);
    const std::string rest = blank == std::string::npos ? "" : trimmed(line.substr(blank));
    struct Entry {
      std::string_view name;
      void (ChatLoop::*run)(const std::string& rest);
    };
    constexpr std::array kEntries = {
        Entry{"/help", &ChatLoop::help},     Entry{"/system", &ChatLoop::system},
        Entry{"/undo", &ChatLoop::undo},     Entry{"/edit", &ChatLoop::edit},
        Entry{"/retry", &ChatLoop::retry},   Entry{"/clear", &ChatLoop::clear},
        Entry{"/save", &ChatLoop::save},     Entry{"/load", &ChatLoop::load},
        Entry{"/stats", &ChatLoop::stats},   Entry{"/window", &ChatLoop::window},
        Entry{"/policy", &ChatLoop::policy}, Entry{"/pin", &ChatLoop::pin},
        Entry{"/drop", &ChatLoop::drop},     Entry{"/exit", &ChatLoop::exit},
        Entry{"/quit", &ChatLoop::exit},     Entry{"/bye", &ChatLoop::exit},
    };
    const auto found = std::ranges::find(kEntries, name, &Entry::name);
    if (found != kEntries.end()) {
      (this->*found->run)(rest);
    } else {
      output_.remark(
          fmt::format("there is no command {}; /help lists them (a message may begin "
                      "with a blank)",
                      formats::printable(name)));
    }
  }

  void help(const std::string&) { output_.text(kHelp); }

  void system(const std::string& text) {
    session_.set_system(text);
    output_.remark(text.empty() ? "no system message from now on" : "system message set");
  }

  void undo(const std::string& handle) {
    if (!handle.empty()) return say_or_complain(session_.undo_compaction(handle));
    const auto message = session_.undo();
    report(message.ok() ? Result<void>() : Result<void>(message.error()), "taken back");
  }

  void edit(const std::string& text) {
    auto message = session_.undo();
    if (!message.ok()) return complain(message.error());
    if (!text.empty()) return say(text);
    if (!editor_.on_terminal()) {
      return output_.remark(
          "/edit without a terminal needs the new TEXT; the message is taken back");
    }
    const LineEditor::Input input = editor_.read("> ", *std::move(message));
    if (input.kind == LineEditor::Input::Kind::kMessage && !trimmed(input.text).empty()) {
      return say(input.text);
    }
    output_.remark("nothing asked; the message is taken back");
  }

  void retry(const std::string&) { finish_turn(session_.retry(printer_.listener())); }

  void clear(const std::string&) {
    session_.clear();
    output_.remark("a new conversation");
  }

  void save(const std::string& file) {
    if (file.empty()) return output_.remark("/save needs a FILE");
    report(session_.save(file), "saved to " + file);
  }

  void load(const std::string& file) {
    if (file.empty()) return output_.remark("/load needs a FILE");
    report(session_.load(file), "loaded " + file);
  }

  void stats(const std::string&) { output_.text(session_.stats()); }
  void window(const std::string&) { output_.text(session_.window()); }
  void policy(const std::string& name) { say_or_complain(session_.policy(name)); }
  void pin(const std::string& index) { say_or_complain(session_.pin(index)); }
  void drop(const std::string& index) { say_or_complain(session_.drop(index)); }
  void exit(const std::string&) { done_ = true; }

  Output& output_;
  ChatSession& session_;
  LineEditor editor_;
  AnswerPrinter printer_;
  bool done_ = false;
};

void declare_chat(OptionParser& parser, ChatOptions& options) {
  declare(parser, options.model);
  parser.heading("Conversation");
  declare_conversation(parser, options.prompt);
  parser.add({{"--hide-reasoning"},
              "",
              "do not show what a model thinks before it answers",
              set(options.hide_reasoning)});
  parser.add({{"--conversation"},
              "NAME",
              "keep the conversation in $QUIRE_HOME and go on with it next time; 'quire history'",
              store(options.conversation)});
  declare(parser, options.generation);
  declare(parser, options.sampling);
  declare(parser, options.cache);
  declare(parser, options.compute);
  parser.heading("Output");
  parser.add({{"-v", "--verbose"}, "", "say more on stderr", set(options.output.verbose)});
  parser.add(
      {{"-q", "--quiet"}, "", "say nothing on stderr but errors", set(options.output.quiet)});
  parser.add({{"--json"}, "", "", refuse("a chat is no document; use 'quire run --json'")});
}

Result<void> run_chat(const Command& self, const Environment& env,
                      std::span<const std::string> args) {
  ChatOptions options;
  OptionParser parser("quire chat");
  declare_chat(parser, options);
  QUIRE_TRY(const bool helped, parse_or_help(self, env, parser, args));
  if (helped) return {};
  Output output(env, options.output);
  QUIRE_TRY(const auto session, ChatSession::start(env, options, output));
  return ChatLoop(env, options, output, *session).execute();
}

}  // namespace

const Command kChatCommand = {
    .name = "chat",
    .arguments = "MODEL [options]",
    .summary = "talk with a model",
    .example =
        "  quire chat model.gguf --system 'You answer briefly.'\n"
        "  quire chat model.gguf --conversation holidays\n",
    .run = run_chat,
};

}  // namespace quire::cli
