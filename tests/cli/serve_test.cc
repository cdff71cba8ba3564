// `quire serve` before it serves: what it refuses, and how. tests/server and tests/clients ask it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/run_quire.h"

namespace quire::cli {
namespace {

using testing::HasSubstr;

TEST(ServeCommand, RefusesToListenWiderWithoutAKey) {
  for (const char* host : {"0.0.0.0", "::"}) {
    const RunResult run = run_quire({"serve", tiny("llama_tied"), "--host", host, "--port", "0"});
    EXPECT_EQ(run.exit_code, 2);
    EXPECT_THAT(run.err, HasSubstr("key"));
    EXPECT_EQ(run.error_lines(), 1);
  }
}

TEST(ServeCommand, RefusesWhatItCannotUse) {
  const std::string model = tiny("llama_tied");
  const std::string empty = scratch_file("no_keys.txt", "# none\n");
  const auto error = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"serve", model, "--port", "0"});
    const RunResult run = run_quire(more);
    EXPECT_NE(run.exit_code, 0);
    EXPECT_EQ(run.error_lines(), 1) << run.err;
    return run.err;
  };
  EXPECT_THAT(error({"--api-key-file", empty}), HasSubstr("holds no key"));
  EXPECT_THAT(error({"--api-key-file", scratch_path("no_such_file")}), HasSubstr("no_such_file"));
  EXPECT_THAT(error({"--api-key", "secret"}), HasSubstr("--api-key-file"));
  EXPECT_THAT(error({"--log-level", "loud"}), HasSubstr("debug"));
  EXPECT_THAT(error({"--memory", "lots"}), HasSubstr("24G"));
  EXPECT_THAT(error({"--memory", "1K"}), HasSubstr("weights"));
  EXPECT_THAT(error({"--draft", "17"}), HasSubstr("--draft"));
  EXPECT_THAT(error({"--host", "no.such.host.invalid"}), HasSubstr("--host"));
  EXPECT_EQ(run_quire({"serve", "--port", "0"}).exit_code, 2);
}

}  // namespace
}  // namespace quire::cli
