// output.h: where results and remarks go.
//
// Results go to stdout, or to -o FILE in one step at the end: text for people, or exactly one JSON
// document with --json. Remarks and progress go to stderr; progress only if that is a terminal.
// Every result ends with finish(), which notices a full disk. Use from one thread.
#pragma once
#include <chrono>
#include <string>
#include <string_view>

#include "cli/environment.h"
#include "cli/options.h"
#include "formats/json.h"

namespace quire::cli {

class Output {
 public:
  Output(const Environment& env, OutputOptions options);

  bool json() const { return options_.json; }
  bool verbose() const { return options_.verbose; }
  /// Whether text() reaches a terminal at once.
  bool interactive() const { return interactive_; }
  /// Whether remarks do.
  bool remarks_on_terminal() const { return err_is_terminal_; }

  /// Whether a write of text() failed: there is no use in going on.
  bool broken() const { return write_failed_; }

  /// Result text for people; nothing with --json.
  void text(std::string_view text);
  /// A sentence on stderr, unless -q.
  void remark(std::string_view sentence);
  /// What went wrong, on stderr, even with -q.
  void complaint(std::string_view sentence);
  /// A sentence on stderr with -v.
  void detail(std::string_view sentence);

  /// Redraws the progress line: "what 42 %". Cheap enough to be called for every token.
  void progress(std::string_view what, double share);
  void clear_progress();

  /// Completes what text() began; or, with --json, prints `document`.
  Result<void> finish(const formats::Json& document);

 private:
  Result<void> flushed();

  const Environment& env_;
  OutputOptions options_;
  bool interactive_;
  bool err_is_terminal_;
  std::string for_file_;
  bool write_failed_ = false;
  bool progress_shown_ = false;
  std::chrono::steady_clock::time_point last_progress_{};
};

}  // namespace quire::cli
