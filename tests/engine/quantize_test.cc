#include "engine/quantize.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include "engine/tiny_models.h"
#include "formats/json.h"

namespace quire::engine {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

const std::string kTiny = QUIRE_TEST_DATA "/tiny/";

/// A folder for new files, which goes with the test.
class Quantize : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "quire-quantize-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string out(std::string_view name) const { return (folder_ / name).string(); }

  Result<QuantizeReport> quantize(const std::string& from, const std::string& to,
                                  QuantizeOptions options) {
    QUIRE_TRY(const auto files, formats::ModelFiles::open(real_file_system(), from));
    QUIRE_TRY(const auto file, create_file(to, IfExists::kRefuse));
    return quantize_model(files, options, *file);
  }

  fs::path folder_;
};

std::vector<float> logits_in_f32(const std::string& path, std::span<const TokenId> tokens) {
  const auto model = load_or_die(path);
  const auto engine = engine_or_die(*model, {.kv = {kv::Codec::F32, kv::Codec::F32},
                                             .activations = kernels::ActivationPolicy::kF32});
  Sequence sequence = engine->create_sequence();
  return all_logits(*engine, sequence, tokens, 64);
}

/// Largest difference over the rms of the first.
double worst_of(const std::vector<float>& truth, const std::vector<float>& got) {
  EXPECT_EQ(truth.size(), got.size());
  double squares = 0;
  double worst = 0;
  for (size_t i = 0; i < truth.size(); ++i) {
    squares += double{truth[i]} * truth[i];
    worst = std::max(worst, std::abs(double{truth[i]} - got[i]));
  }
  return worst / std::sqrt(squares / static_cast<double>(truth.size()));
}

std::vector<TokenId> some_tokens(int32_t count, int32_t vocab) {
  std::vector<TokenId> tokens;
  for (int32_t i = 0; i < count; ++i) tokens.push_back(TokenId{(i * i * 7 + 3) % vocab});
  return tokens;
}

std::vector<TokenId> tokens_for(const std::string& path) {
  return some_tokens(90, load_or_die(path)->config().vocab);
}

TEST_F(Quantize, KeepsAnF16FolderBitForBitAsF16) {
  ASSERT_TRUE(quantize(kTiny + "llama_f16", out("f16.gguf"), {.type = ElementType::F16}).ok());
  const auto tokens = tokens_for(kTiny + "llama_f16");
  EXPECT_EQ(logits_in_f32(out("f16.gguf"), tokens), logits_in_f32(kTiny + "llama_f16", tokens));
}

/// A copy of a tiny folder with another number in its config.json.
std::string with_number(const fs::path& into, const std::string& model, const std::string& key,
                        int64_t value) {
  fs::copy(kTiny + model, into, fs::copy_options::recursive);
  const std::string path = (into / "config.json").string();
  auto text = real_file_system().read(path, 1 << 20).value();
  auto config = formats::Json::parse(text, path).value();
  config.set(key, value);
  EXPECT_TRUE(real_file_system().write_atomically(path, config.dump()).ok());
  return into.string();
}

TEST_F(Quantize, KeepsAGemmaFolderThatGgufCanSay) {
  for (const std::string model : {"gemma3", "gemma3_legacy"}) {
    const int64_t head_dim = load_or_die(kTiny + model)->config().head_dim;
    const std::string folder =
        with_number(folder_ / model, model, "query_pre_attn_scalar", head_dim);
    const auto report = quantize(folder, out(model + ".gguf"), {.type = ElementType::F16});
    ASSERT_TRUE(report.ok()) << report.error().message;
    const auto tokens = tokens_for(folder);
    EXPECT_LE(worst_of(logits_in_f32(folder, tokens), logits_in_f32(out(model + ".gguf"), tokens)),
              0.02)
        << model;
  }
}

class QuantizeFolders : public Quantize, public testing::WithParamInterface<std::string> {};

TEST_P(QuantizeFolders, ComputeWhatTheFolderComputesUpToTheRoundingOfTheType) {
  const std::string folder = kTiny + GetParam();
  const auto tokens = tokens_for(folder);
  const std::vector<float> truth = logits_in_f32(folder, tokens);
  // Tiny models have large random weights: what four bits lose shows more than in a real one.
  const std::pair<ElementType, double> bounds[] = {{ElementType::F16, 0.02},
                                                   {ElementType::Q8_0, 0.5}};
  for (const auto& [type, bound] : bounds) {
    const std::string name(info(type).name);
    const auto report = quantize(folder, out(name), {.type = type});
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_LE(worst_of(truth, logits_in_f32(out(name), tokens)), bound) << name;
  }
}

/// What GGUF has no key for: readers of the format compute it from other numbers.
const std::set<std::string> kBeyondGguf = {"falcon_sequential", "gemma2_scalar", "gemma3",
                                           "gemma3_legacy", "qwen2_window"};

std::vector<std::string> folders(bool beyond_gguf) {
  std::vector<std::string> names;
  for (const TinyModel& tiny : tiny_models()) {
    const std::string name = fs::path(tiny.path).filename().string();
    if (!fs::exists(fs::path(tiny.path) / "config.json")) continue;
    if (kBeyondGguf.contains(name) == beyond_gguf) names.push_back(name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, QuantizeFolders, testing::ValuesIn(folders(false)),
                         [](const auto& test) { return test.param; });

TEST_F(Quantize, RefusesEveryFolderThatGgufCannotSayAndLeavesNothing) {
  const std::vector<std::string> refused = folders(true);
  ASSERT_EQ(refused.size(), kBeyondGguf.size());
  for (const std::string& folder : refused) {
    const auto report = quantize(kTiny + folder, out("m.gguf"), {.type = ElementType::F16});
    ASSERT_FALSE(report.ok()) << folder;
    EXPECT_EQ(report.error().code, ErrorCode::kUnsupported);
    EXPECT_THAT(report.error().message, HasSubstr("cannot say")) << folder;
    EXPECT_TRUE(fs::is_empty(folder_));
  }
}

TEST_F(Quantize, WritesTheTokenizerTheTemplateAndTheEndsOfAFolder) {
  ASSERT_TRUE(quantize(kTiny + "llama_tied", out("m.gguf"), {.type = ElementType::F16}).ok());
  const auto folder = load_or_die(kTiny + "llama_tied");
  const auto file = load_or_die(out("m.gguf"));
  const context::Tokenizer& a = folder->tokenizer();
  const context::Tokenizer& b = file->tokenizer();
  EXPECT_EQ(a.bos(), b.bos());
  EXPECT_EQ(a.eos(), b.eos());
  EXPECT_EQ(a.add_bos(), b.add_bos());
  EXPECT_TRUE(std::ranges::equal(a.end_of_generation(), b.end_of_generation()));
  EXPECT_EQ(a.chat_template(), b.chat_template());
  ASSERT_NE(file->chat_template(), nullptr);
  for (const std::string text : {"Once upon 12345 times", "<|im_start|>user\n", " \n x"}) {
    EXPECT_EQ(a.encode(text, context::Special::kParse), b.encode(text, context::Special::kParse));
    EXPECT_EQ(a.encode(text, context::Special::kPlain), b.encode(text, context::Special::kPlain));
  }
}

TEST_F(Quantize, KeepsAllKeysOfAGgufFileButThoseOfItsOldForm) {
  const std::string source = kTiny + "llama_gguf/f32.gguf";
  ASSERT_TRUE(quantize(source, out("m.gguf"), {.type = ElementType::Q8_0}).ok());
  const auto before = formats::ModelFiles::open(real_file_system(), source).value();
  const auto after = formats::ModelFiles::open(real_file_system(), out("m.gguf")).value();
  for (const formats::GgufValue& value : before.gguf()->values()) {
    if (value.key.starts_with("general.file_type")) continue;
    const formats::GgufValue* twin = after.gguf()->find(value.key);
    ASSERT_NE(twin, nullptr) << value.key;
    EXPECT_TRUE(std::ranges::equal(twin->payload, value.payload)) << value.key;
  }
  EXPECT_EQ(after.gguf()->require<uint32_t>("general.file_type").value(), 7u);
  EXPECT_EQ(after.gguf()->require<uint32_t>("general.quantization_version").value(), 2u);
}

TEST_F(Quantize, MakesOneFileOfASplitSet) {
  ASSERT_TRUE(quantize(kTiny + "llama_gguf/split-00001-of-00003.gguf", out("m.gguf"),
                       {.type = ElementType::Q4_0})
                  .ok());
  const auto after = formats::ModelFiles::open(real_file_system(), out("m.gguf")).value();
  EXPECT_EQ(after.gguf()->find("split.count"), nullptr);
  const auto tokens = tokens_for(out("m.gguf"));
  EXPECT_EQ(logits_in_f32(out("m.gguf"), tokens),
            logits_in_f32(kTiny + "llama_gguf/q4_0.gguf", tokens));
}

TEST_F(Quantize, ReadsEveryTypeOfFile) {
  for (const char* source : {"llama_gguf/q4_1", "llama_gguf/q5_0", "llama_gguf/q5_1",
                             "llama_gguf/bf16", "llama_k_gguf/q4_k_m"}) {
    const std::string path = kTiny + source + ".gguf";
    const std::string to = out(fs::path(source).stem().string() + ".f16");
    const auto report = quantize(path, to, {.type = ElementType::F16, .threads = 2});
    ASSERT_TRUE(report.ok()) << report.error().message;
    const auto tokens = tokens_for(path);
    EXPECT_LE(worst_of(logits_in_f32(path, tokens), logits_in_f32(to, tokens)), 0.02) << source;
  }
}

TEST_F(Quantize, RemarksThatLossesAddUp) {
  const auto report =
      quantize(kTiny + "llama_gguf/q8_0.gguf", out("m.gguf"), {.type = ElementType::Q4_0});
  ASSERT_TRUE(report.ok());
  EXPECT_THAT(report->remarks, ElementsAre(HasSubstr("were quantized before")));
}

TEST_F(Quantize, GivesTheSameFileWithAnyNumberOfThreads) {
  const auto content = [&](const std::string& name) {
    std::ifstream in(out(name), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  for (const int32_t threads : {1, 2, 5}) {
    ASSERT_TRUE(quantize(kTiny + "llama_tied", out(std::to_string(threads)),
                         {.type = ElementType::Q4_1, .threads = threads})
                    .ok());
  }
  EXPECT_EQ(content("1"), content("2"));
  EXPECT_EQ(content("1"), content("5"));
}

TEST_F(Quantize, StopsAndLeavesNothingWhenItIsInterrupted) {
  int calls = 0;
  const auto stopped = quantize(kTiny + "llama_tied", out("m.gguf"),
                                {.type = ElementType::Q8_0, .progress = [&](double share) {
                                   EXPECT_GT(share, 0);
                                   return ++calls < 3;
                                 }});
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().code, ErrorCode::kInterrupted);
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(Quantize, ReportsProgressUpToTheEnd) {
  double last = 0;
  ASSERT_TRUE(quantize(kTiny + "llama_tied", out("m.gguf"),
                       {.type = ElementType::Q8_0,
                        .progress =
                            [&](double share) {
                              EXPECT_GE(share, last);
                              last = share;
                              return true;
                            }})
                  .ok());
  EXPECT_EQ(last, 1.0);
}

TEST(StoredType, FollowsLlamaCpp) {
  using enum ElementType;
  const WeightPlace matrix{.name = "blk.0.ffn_up.weight", .columns = 64, .source = BF16};
  const auto named = [&](std::string_view name) {
    WeightPlace place = matrix;
    place.name = name;
    return place;
  };
  EXPECT_EQ(stored_type(matrix, Q4_0), Q4_0);
  WeightPlace head = named("output.weight");
  head.is_head = true;
  EXPECT_EQ(stored_type(head, Q4_0), Q8_0);
  EXPECT_EQ(stored_type(head, Q8_0), Q8_0);
  EXPECT_EQ(stored_type(head, F16), F16);
  head.source = Q6_K;
  EXPECT_EQ(stored_type(head, Q4_1), Q6_K);
  EXPECT_EQ(stored_type(named("token_embd.weight"), Q4_0), Q4_0);

  for (const char* high : {"blk.0.attn_norm.weight", "blk.0.ffn_gate_inp.weight",
                           "position_embd.weight", "blk.0.attn_q.bias"}) {
    EXPECT_EQ(stored_type(named(high), Q4_0), BF16) << high;
    WeightPlace of_folder = named(high);
    of_folder.from_folder = true;
    EXPECT_EQ(stored_type(of_folder, Q4_0), F32) << high;
  }
  WeightPlace vector = matrix;
  vector.dimensions = 1;
  EXPECT_EQ(stored_type(vector, Q8_0), BF16);

  WeightPlace odd = matrix;
  odd.columns = 40;
  EXPECT_EQ(stored_type(odd, Q8_0), F16);

  WeightPlace value = named("blk.0.attn_v.weight");
  EXPECT_EQ(stored_type(value, Q4_0), Q4_0);
  value.eight_experts = true;
  EXPECT_EQ(stored_type(value, Q4_0), Q8_0);
}

}  // namespace
}  // namespace quire::engine
