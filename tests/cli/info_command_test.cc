// `quire info` finds the model wherever people have it, and says what looks wrong.
#include <gmock/gmock.h>

#include <filesystem>

#include "cli/run_quire.h"

namespace quire::cli {
namespace {

namespace fs = std::filesystem;
using formats::Json;
using ::testing::HasSubstr;
using ::testing::Not;

Json info(const std::string& model, const RunSetup& setup = {}) {
  const RunResult result = run_quire({"info", model, "--json"}, setup);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.json();
}

std::string warnings(const std::string& model) {
  return at(info(model), "warnings").dump();
}

/// A copy of a tiny model's folder in the scratch folder.
std::string copy_of(std::string_view model, const std::string& name) {
  const std::string folder = scratch_path(name);
  fs::remove_all(folder);
  fs::copy(tiny(model), folder, fs::copy_options::recursive);
  return folder;
}

/// In a copy of a GGUF file, puts `now` for `before`, which is as long.
std::string edited(std::string_view model, const std::string& name, std::string_view before,
                   std::string_view now) {
  std::string content = file_content(tiny(model));
  const size_t at = content.find(before);
  EXPECT_NE(at, std::string::npos) << before;
  EXPECT_EQ(before.size(), now.size());
  content.replace(at, before.size(), now);
  return scratch_file(name, content);
}

TEST(InfoCommand, ReadsABlobWithoutASuffix) {
  const std::string blob = scratch_path("sha256-0123456789abcdef");
  fs::copy_file(tiny("llama_gguf/q4_0.gguf"), blob, fs::copy_options::overwrite_existing);
  const Json json = info(blob);
  EXPECT_EQ(at(json, "format"), Json("gguf"));
  EXPECT_EQ(at(json, "architecture"), Json("llama"));
}

TEST(InfoCommand, ReadsAModelInTheHubsCache) {
  const std::string hub = scratch_path("models--org--tiny");
  fs::remove_all(hub);
  fs::create_directories(hub + "/blobs");
  fs::create_directories(hub + "/snapshots/0a1b");
  for (const std::string file :
       {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}) {
    fs::copy_file(tiny("llama_tied/") + file, hub + "/blobs/of-" + file);
    fs::create_symlink("../../blobs/of-" + file, hub + "/snapshots/0a1b/" + file);
  }
  for (const std::string& path : {hub, hub + "/snapshots/0a1b"}) {
    const Json json = info(path);
    EXPECT_EQ(at(json, "architecture"), Json("llama"));
    EXPECT_EQ(at(json, "warnings"), Json(Json::Array{}));
  }
}

TEST(InfoCommand, FindsABareNameInTheFolderOfModels) {
  const std::string home = scratch_path("home");
  fs::remove_all(home);
  fs::create_directories(home + "/models");
  fs::copy_file(tiny("llama_gguf/q4_0.gguf"), home + "/models/single.gguf");
  for (const char* part : {"00001", "00002", "00003"}) {
    fs::copy_file(tiny("llama_gguf/split-") + part + "-of-00003.gguf",
                  home + "/models/big-" + part + "-of-00003.gguf");
  }
  const RunSetup setup{.in = "", .env = {{"QUIRE_HOME", home}}};
  EXPECT_EQ(at(info("single", setup), "format"), Json("gguf"));
  EXPECT_THAT(at(info("big", setup), "path").dump(), HasSubstr("big-00001-of-00003.gguf"));
  EXPECT_EQ(run_quire({"info", "huge"}, setup).exit_code, 3);
}

TEST(InfoCommand, NamesTheMissingPartOfASet) {
  const std::string first = scratch_path("part-00001-of-00003.gguf");
  fs::copy_file(tiny("llama_gguf/split-00001-of-00003.gguf"), first,
                fs::copy_options::overwrite_existing);
  EXPECT_THAT(warnings(first), HasSubstr("2 of the 3 parts of the model are missing"));
}

TEST(InfoCommand, NamesWhatAFolderLacks) {
  const std::string folder = copy_of("llama_tied", "lacking");
  fs::remove(folder + "/tokenizer.json");
  EXPECT_THAT(warnings(folder), HasSubstr("has no tokenizer.json"));
  fs::rename(folder + "/model.safetensors", folder + "/model-00001-of-00002.safetensors");
  EXPECT_THAT(warnings(folder), HasSubstr("model-00002-of-00002.safetensors is missing"));
  fs::remove(folder + "/model-00001-of-00002.safetensors");
  EXPECT_THAT(warnings(folder), HasSubstr("there are no weights here"));
  scratch_file("lacking/pytorch_model.bin", "PK");
  EXPECT_THAT(warnings(folder), HasSubstr("there are no weights here"));
}

TEST(InfoCommand, WarnsOfALengthBeyondTheTrainedOne) {
  const std::string folder = copy_of("llama_tied", "long");
  EXPECT_THAT(warnings(folder), Not(HasSubstr("model_max_length")));
  Json config = Json::parse(file_content(folder + "/tokenizer_config.json"), "config").value();
  config.set("model_max_length", 4096);
  scratch_file("long/tokenizer_config.json", config.dump());
  EXPECT_THAT(warnings(folder), HasSubstr("speaks of 4096 tokens (model_max_length)"));
  config.set("model_max_length", 1e30);  // how transformers says "no limit"
  scratch_file("long/tokenizer_config.json", config.dump());
  EXPECT_THAT(warnings(folder), Not(HasSubstr("model_max_length")));

  const RunResult wanted = run_quire({"info", folder, "--ctx", "4096", "--json"});
  EXPECT_THAT(at(wanted.json(), "warnings").dump(),
              HasSubstr("beyond the 512 tokens the model was trained for"));
}

TEST(InfoCommand, WarnsOfAPreTokenizerThatIsNotKnown) {
  const std::string file = edited("llama_gguf/f16.gguf", "pre.gguf", "smollm", "smellm");
  EXPECT_THAT(warnings(file), HasSubstr("smellm, which Quire does not know"));
}

TEST(InfoCommand, WarnsOfAFileThatWasCutOff) {
  const std::string whole = file_content(tiny("llama_gguf/f16.gguf"));
  const std::string file = scratch_file("cut.gguf", whole.substr(0, whole.size() - 2000));
  EXPECT_THAT(warnings(file), HasSubstr("download it again"));
}

TEST(InfoCommand, TellsPeopleWhetherTheHeadIsTied) {
  EXPECT_THAT(run_quire({"info", tiny("llama_tied")}).out,
              HasSubstr("which are the output head too"));
  EXPECT_THAT(run_quire({"info", tiny("llama_mha_bf16")}).out,
              HasSubstr("an output head of its own"));
}

TEST(InfoCommand, ExplainsAModelToPeople) {
  const std::string out = run_quire({"info", tiny("gemma3")}).out;
  for (const char* part : {"architecture", "layers", "context", "window", "rope", "kv cache",
                           "bytes", "tokenizer", "BOS", "template", "warning"}) {
    EXPECT_THAT(out, HasSubstr(part));
  }
}

}  // namespace
}  // namespace quire::cli
