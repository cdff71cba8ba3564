// `quire run --json-schema`, and what `quire loadtest` refuses.
#include <gmock/gmock.h>

#include "cli/run_quire.h"

namespace quire::cli {
namespace {

using formats::Json;
using ::testing::AnyOf;
using ::testing::HasSubstr;

TEST(RunJsonSchema, HoldsEveryChoiceToTheSchema) {
  const std::string schema = scratch_file("schema.json", R"({"type": "object", "required": ["a"],
      "properties": {"a": {"enum": ["red", "green"]}}})");
  const RunResult result =
      run_quire({"run", tiny("llama_tied"), "-p", "hello", "--json-schema", schema, "--choices",
                 "3", "--temp", "1.5", "-n", "60", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json document = result.json();
  const Json& choices = at(document, "choices");
  ASSERT_EQ(choices.as_array()->size(), 3u);
  for (const Json& choice : *choices.as_array()) {
    ASSERT_EQ(at(choice, "finish_reason"), Json("stop"));
    const auto answer = Json::parse(*at(choice, "text").as_string(), "an answer");
    ASSERT_TRUE(answer.ok()) << at(choice, "text").dump();
    EXPECT_THAT(*at(*answer, "a").as_string(), AnyOf("red", "green"));
  }
}

TEST(RunJsonSchema, RefusesWhatIsNoSchemaInASentence) {
  const auto refused = [](const std::string& content, int exit_code, const std::string& sentence) {
    const std::string schema = scratch_file("schema.json", content);
    const RunResult result =
        run_quire({"run", tiny("llama_tied"), "-p", "hello", "--json-schema", schema});
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_THAT(result.err, HasSubstr(sentence));
    EXPECT_EQ(result.error_lines(), 1) << result.err;
  };
  refused(R"({"not": {}})", 2, "the schema at #: not is not supported");
  refused("{", 2, "schema.json");
  refused("3", 2, "a schema must be an object or a boolean");
  const RunResult beams = run_quire(
      {"run", tiny("llama_tied"), "-p", "hello", "--json-schema", "x.json", "--beams", "2"});
  EXPECT_EQ(beams.exit_code, 2);
  EXPECT_THAT(beams.err, HasSubstr("--json-schema does not go with --batch or --beams"));
}

TEST(Loadtest, RefusesAddressesThatAreNotThisMachines) {
  const auto refused = [](std::vector<std::string> args, int exit_code,
                          const std::string& sentence) {
    args.insert(args.begin(), "loadtest");
    const RunResult result = run_quire(args);
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_THAT(result.err, HasSubstr(sentence));
    EXPECT_EQ(result.error_lines(), 1) << result.err;
  };
  refused({}, 2, "needs the address of a server");
  refused({"http://example.com"}, 2, "example.com is not this machine");
  refused({"https://localhost"}, 2, "only http:// is spoken");
  refused({"http://127.0.0.1:1"}, 3, "cannot be reached");
  refused({"http://127.0.0.1:1", "--find-max", "8"}, 2, "--find-max needs an objective");
  refused({"http://127.0.0.1:1", "--share", "0"}, 2, "--share wants a percentage");
  refused({"http://127.0.0.1:1", "--api-key-env", "QUIRE_NO_SUCH_KEY"}, 2, "QUIRE_NO_SUCH_KEY");
}

}  // namespace
}  // namespace quire::cli
