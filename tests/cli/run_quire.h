// run_quire.h: the program itself, run as a user would, with its streams caught.
//
// Each run has its own process, an empty QUIRE_HOME and a time limit. Use from one thread.
#pragma once
#include <sys/types.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/json.h"

namespace quire::cli {

struct RunResult {
  int exit_code = -1;  // 128 + signal if one ended it
  std::string out;
  std::string err;

  /// `out` as the one JSON document it must be.
  formats::Json json() const;
  /// Lines of `err`.
  int64_t error_lines() const;
};

struct RunSetup {
  std::string in;
  std::vector<std::pair<std::string, std::string>> env;
};

RunResult run_quire(const std::vector<std::string>& args, const RunSetup& setup = {});

/// The program on a terminal of 80 x 24.
class TerminalRun {
 public:
  explicit TerminalRun(const std::vector<std::string>& args);
  ~TerminalRun();
  TerminalRun(const TerminalRun&) = delete;
  TerminalRun& operator=(const TerminalRun&) = delete;

  void type(std::string_view keys);
  /// Reads until `text` has appeared after what earlier calls waited for; false after a minute.
  bool wait_for(std::string_view text);
  /// Everything it wrote so far.
  const std::string& screen() const { return screen_; }
  /// Waits for its end; 137 if it had to be killed after a minute.
  int exit_code();

 private:
  int terminal_ = -1;
  pid_t child_ = -1;
  std::string screen_;
  size_t seen_ = 0;
  bool closed_ = false;
};

/// A model in tests/data/tiny.
std::string tiny(std::string_view name);

/// A model in the scratch folder that has no chat template.
std::string model_without_template();

/// A file in a folder of this test process, removed at its end.
std::string scratch_file(std::string_view name, std::string_view content);
std::string scratch_path(std::string_view name);
std::string file_content(const std::string& path);

/// A member of a JSON object, null if there is none.
const formats::Json& at(const formats::Json& json, std::string_view key);

}  // namespace quire::cli
