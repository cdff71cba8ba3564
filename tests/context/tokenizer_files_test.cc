// Tokenizers from files that are true, and from files that are broken or hostile.
#include <gmock/gmock.h>

#include <limits>

#include "context/tokenizer_testing.h"
#include "formats/gguf_builder.h"
#include "formats/memory_file_system.h"

namespace quire::context {
namespace {

using formats::GgufBuilder;
using testing::ElementsAre;
using testing::HasSubstr;

/// A byte-level tokenizer with a few tokens; each test breaks one key.
struct SmallGguf {
  std::optional<std::string> model = "gpt2";
  std::optional<std::string> pre = "gpt-2";
  std::vector<std::string> tokens = {"a", "b", "ab", "\u0120", "<|im_end|>", "<think>"};
  std::vector<int32_t> types = {1, 1, 1, 1, 3, 4};
  std::optional<std::vector<std::string>> merges = std::vector<std::string>{"a b"};
  std::optional<std::vector<float>> scores;
  GgufBuilder more;

  Result<Tokenizer> load() {
    GgufBuilder& builder = more;
    if (model) builder.string("tokenizer.ggml.model", *model);
    if (pre) builder.string("tokenizer.ggml.pre", *pre);
    builder.strings("tokenizer.ggml.tokens", tokens);
    builder.numbers<int32_t>("tokenizer.ggml.token_type", types);
    if (merges) builder.strings("tokenizer.ggml.merges", *merges);
    if (scores) builder.numbers<float>("tokenizer.ggml.scores", *scores);
    formats::MemoryFileSystem files;
    files.put("model.gguf", builder.build());
    const auto file =
        formats::GgufFile::open(files, "model.gguf", formats::OpenMode::kMetadataOnly).value();
    return Tokenizer::from_gguf(file.metadata());
  }

  std::string error() {
    const auto tokenizer = load();
    return tokenizer.ok() ? "no error" : tokenizer.error().message;
  }
};

SmallGguf sentencepiece_gguf() {
  SmallGguf gguf;
  gguf.model = "llama";
  gguf.pre = "default";
  gguf.tokens = {"<unk>", "<s>", "</s>", "\u2581", "a", "b", "\u2581a", "ab", "  ", "<0x0A>"};
  gguf.types = {2, 3, 3, 1, 1, 1, 1, 1, 4, 6};
  gguf.scores = {0, 0, 0, -5, -6, -7, -2, -1, -1000, 0};
  gguf.merges.reset();
  gguf.more.number<uint32_t>("tokenizer.ggml.bos_token_id", 1)
      .number<uint32_t>("tokenizer.ggml.eos_token_id", 2)
      .number<uint32_t>("tokenizer.ggml.unknown_token_id", 0);
  return gguf;
}

TEST(GgufTokenizer, ReadsAByteLevelVocabulary) {
  SmallGguf gguf;
  gguf.more.number<uint32_t>("tokenizer.ggml.eos_token_id", 4)
      .string("tokenizer.chat_template", "{{ messages }}");
  const Tokenizer tokenizer = gguf.load().value();

  EXPECT_THAT(encode(tokenizer, "ab a<|im_end|><think>"), ElementsAre(2, 3, 0, 4, 5));
  EXPECT_EQ(tokenizer.eos(), TokenId{4});
  EXPECT_FALSE(tokenizer.add_bos());
  EXPECT_EQ(tokenizer.chat_template(), "{{ messages }}");
  EXPECT_EQ(tokenizer.kind(TokenId{4}), TokenKind::kControl);
  EXPECT_EQ(tokenizer.kind(TokenId{5}), TokenKind::kUserDefined);
  EXPECT_THAT(tokenizer.special_tokens(),
              ElementsAre(std::pair<std::string, std::string>("eos_token", "<|im_end|>")));
}

TEST(GgufTokenizer, MarksATokenThatEndsAnswersAsControlWhateverTheFileSays) {
  SmallGguf gguf;
  gguf.types[4] = 1;
  const Tokenizer tokenizer = gguf.load().value();
  EXPECT_TRUE(tokenizer.is_control(TokenId{4}));
  EXPECT_TRUE(tokenizer.is_end_of_generation(TokenId{4}));
}

TEST(GgufTokenizer, PrependsASpaceToEverySegmentAsLlamaDoes) {
  SmallGguf gguf = sentencepiece_gguf();
  const Tokenizer tokenizer = gguf.load().value();

  // "_ab": "ab" scores better than "_a". After "</s>" a space is written again.
  EXPECT_THAT(encode(tokenizer, "ab</s>a"), ElementsAre(3, 7, 2, 6));
  EXPECT_TRUE(tokenizer.add_bos());
  EXPECT_TRUE(tokenizer.add_space_prefix());
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("ab", Special::kParse), SpecialText::kShow), "ab");
}

TEST(GgufTokenizer, MergesSpacesToGemmasRunsBeforeAnythingElse) {
  SmallGguf gguf = sentencepiece_gguf();
  gguf.more.number<bool>("tokenizer.ggml.add_space_prefix", false);
  const Tokenizer tokenizer = gguf.load().value();

  EXPECT_THAT(encode(tokenizer, "b  a"), ElementsAre(5, 8, 4));
  EXPECT_THAT(encode(tokenizer, "b\u2581\u2581a"), ElementsAre(5, 8, 4));
  EXPECT_EQ(tokenizer.piece(TokenId{8}), "  ");
}

TEST(GgufTokenizer, LetsTheTurnMarkersOfPhi3SwallowTheWhiteSpaceAfterThem) {
  const auto with_architecture = [](const char* architecture) {
    SmallGguf gguf = sentencepiece_gguf();
    gguf.tokens.emplace_back("<|end|>");
    gguf.types.push_back(3);
    gguf.scores->push_back(0);
    gguf.more.string("general.architecture", architecture);
    return encode(gguf.load().value(), "<|end|>\n a<s> a");
  };
  EXPECT_THAT(with_architecture("phi3"), ElementsAre(10, 6, 1, 8, 4));
  EXPECT_THAT(with_architecture("llama"), ElementsAre(10, 3, 9, 6, 1, 8, 4));
}

TEST(GgufTokenizer, UsesBytesOrOneUnknownTokenForWhatItDoesNotKnow) {
  const Tokenizer tokenizer = sentencepiece_gguf().load().value();
  EXPECT_THAT(encode(tokenizer, "\nxyb"), ElementsAre(3, 9, 0, 5));
}

TEST(GgufTokenizer, RefusesWhatItDoesNotImplementByName) {
  SmallGguf model;
  model.model = "t5";
  EXPECT_THAT(model.error(), HasSubstr("t5"));
  SmallGguf pre;
  pre.pre = "mystery";
  EXPECT_THAT(pre.error(), HasSubstr("mystery"));
  SmallGguf no_pre;
  no_pre.pre.reset();
  EXPECT_THAT(no_pre.error(), HasSubstr("tokenizer.ggml.pre"));
  SmallGguf cleaned = sentencepiece_gguf();
  cleaned.more.number<bool>("tokenizer.ggml.remove_extra_whitespaces", true);
  EXPECT_THAT(cleaned.error(), HasSubstr("remove_extra_whitespaces"));
}

TEST(GgufTokenizer, RefusesBrokenVocabulariesInOneSentence) {
  SmallGguf duplicate;
  duplicate.tokens[1] = "a";
  EXPECT_THAT(duplicate.error(), HasSubstr("alike"));
  SmallGguf short_types;
  short_types.types.pop_back();
  EXPECT_THAT(short_types.error(), HasSubstr("token_type"));
  SmallGguf odd_type;
  odd_type.types[0] = 99;
  EXPECT_THAT(odd_type.error(), HasSubstr("type 99"));
  SmallGguf no_merges;
  no_merges.merges.reset();
  EXPECT_THAT(no_merges.error(), HasSubstr("tokenizer.ggml.merges"));
  SmallGguf odd_merge;
  odd_merge.merges = {"a b c"};
  EXPECT_THAT(odd_merge.error(), HasSubstr("merges"));
  SmallGguf lost_merge;
  lost_merge.merges = {"b a"};
  EXPECT_THAT(lost_merge.error(), HasSubstr("Merge 0"));
  SmallGguf eos;
  eos.more.number<uint32_t>("tokenizer.ggml.eos_token_id", 6);
  EXPECT_THAT(eos.error(), HasSubstr("eos_token_id is 6"));
  SmallGguf no_byte = sentencepiece_gguf();
  no_byte.tokens[9] = "<0x-1>";
  EXPECT_THAT(no_byte.error(), HasSubstr("<0x-1>"));
  SmallGguf nan = sentencepiece_gguf();
  nan.scores->at(3) = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(nan.error(), HasSubstr("score of token 3"));
  SmallGguf no_scores = sentencepiece_gguf();
  no_scores.scores.reset();
  EXPECT_THAT(no_scores.error(), HasSubstr("tokenizer.ggml.scores"));
  SmallGguf text_scores;
  text_scores = sentencepiece_gguf();
  text_scores.scores.reset();
  text_scores.more.strings("tokenizer.ggml.scores", {"1", "2"});
  EXPECT_THAT(text_scores.error(), HasSubstr("tokenizer.ggml.scores"));
}

std::string json_error(const SmallTokenizer& small) {
  const auto tokenizer = small.load();
  return tokenizer.ok() ? "no error" : tokenizer.error().message;
}

TEST(JsonTokenizer, ReadsBothSpellingsOfMerges) {
  const std::string start = R"({"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":)";
  for (const char* merges : {R"(["a b"])", R"([["a","b"]])"}) {
    const Tokenizer tokenizer = Tokenizer::from_json(start + merges + "}}").value();
    EXPECT_THAT(encode(tokenizer, "ab"), ElementsAre(2));
  }
}

TEST(JsonTokenizer, AddsBosAsThePostProcessorAndTheConfigSay) {
  SmallTokenizer small;
  small.post_processor = R"({"type":"TemplateProcessing","single":[
      {"SpecialToken":{"id":"x","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],
      "special_tokens":{"x":{"id":"x","ids":[23],"tokens":["x"]}}})";
  EXPECT_TRUE(small.build().add_bos());
  EXPECT_EQ(small.build().bos(), TokenId{23});
  EXPECT_FALSE(small.build().add_eos());

  small.config = R"({"add_bos_token":false,"tokenizer_class":"LlamaTokenizer"})";
  EXPECT_FALSE(small.build().add_bos());
  small.config = R"({"add_bos_token":false,"tokenizer_class":"PreTrainedTokenizerFast"})";
  EXPECT_TRUE(small.build().add_bos());
}

TEST(JsonTokenizer, FramesATextByAsManyTokensAsTheTemplateNames) {
  SmallTokenizer small;
  small.post_processor = R"({"type":"Sequence","processors":[{"type":"ByteLevel"},
      {"type":"TemplateProcessing","single":[
      {"SpecialToken":{"id":"x","type_id":0}},{"SpecialToken":{"id":"y","type_id":0}},
      {"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"x","type_id":0}}],
      "special_tokens":{"x":{"id":"x","ids":[23],"tokens":["x"]},
                        "y":{"id":"y","ids":[24,25],"tokens":["y","z"]}}}]})";
  const Tokenizer tokenizer = small.build();
  EXPECT_THAT(numbers(tokenizer.prefix()), ElementsAre(23, 24, 25));
  EXPECT_THAT(numbers(tokenizer.suffix()), ElementsAre(23));
  EXPECT_FALSE(tokenizer.add_bos());
}

TEST(JsonTokenizer, LetsComponentsAfterByteLevelSeeBytesAsCharacters) {
  SmallTokenizer small;
  small.pre_tokenizer = R"({"type":"Sequence","pretokenizers":[
      {"type":"Punctuation","behavior":"Contiguous"},{"type":"ByteLevel","add_prefix_space":false},
      {"type":"Digits","individual_digits":false}]})";
  small.decoder = R"({"type":"ByteLevel"})";
  small.more_tokens = {"\u00D0", "\u00BC", "\u00D0\u00BC", "12", "<<"};
  small.merges = {"\u00D0 \u00BC", "1 2", "< <"};
  EXPECT_THAT(pieces(small.build(), "12\u043C<<"), ElementsAre("12", "\xD0", "\xBC", "<<"));
}

TEST(JsonTokenizer, TakesTheChatTemplateThatIsForConversations) {
  SmallTokenizer small;
  small.config = R"({"chat_template":"one"})";
  EXPECT_EQ(small.build().chat_template(), "one");
  small.config = R"({"chat_template":[{"name":"tool_use","template":"no"},
                                      {"name":"default","template":"yes"}]})";
  EXPECT_EQ(small.build().chat_template(), "yes");
}

TEST(JsonTokenizer, RefusesComponentsItDoesNotImplementByName) {
  SmallTokenizer normalizer;
  normalizer.normalizer = R"({"type":"Sequence","normalizers":[{"type":"BertNormalizer"}]})";
  EXPECT_THAT(json_error(normalizer), HasSubstr("BertNormalizer"));
  SmallTokenizer pre_tokenizer;
  pre_tokenizer.pre_tokenizer = R"({"type":"Whitespace"})";
  EXPECT_THAT(json_error(pre_tokenizer), HasSubstr("Whitespace"));
  SmallTokenizer after;
  after.pre_tokenizer = R"({"type":"Sequence","pretokenizers":[{"type":"ByteLevel"},
                                                             {"type":"Metaspace"}]})";
  EXPECT_THAT(json_error(after), HasSubstr("Metaspace after ByteLevel"));
  SmallTokenizer twice;
  twice.pre_tokenizer = R"({"type":"Sequence","pretokenizers":[{"type":"ByteLevel"},
                                                             {"type":"ByteLevel"}]})";
  EXPECT_THAT(json_error(twice), HasSubstr("second ByteLevel"));
  SmallTokenizer decoder;
  decoder.decoder = R"({"type":"WordPiece"})";
  EXPECT_THAT(json_error(decoder), HasSubstr("WordPiece"));
  SmallTokenizer processor;
  processor.post_processor = R"({"type":"RobertaProcessing"})";
  EXPECT_THAT(json_error(processor), HasSubstr("RobertaProcessing"));
  SmallTokenizer pattern;
  pattern.pre_tokenizer =
      R"({"type":"Split","pattern":{"Regex":"\\p{Greek}+"},"behavior":"Isolated"})";
  EXPECT_THAT(json_error(pattern), HasSubstr("\\p{Greek}"));
  const auto unigram = Tokenizer::from_json(R"({"model":{"type":"Unigram","vocab":[]}})");
  ASSERT_FALSE(unigram.ok());
  EXPECT_EQ(unigram.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(unigram.error().message, HasSubstr("Unigram"));
  const auto word_piece = Tokenizer::from_json(R"({"model":{"type":"WordPiece","vocab":{}}})");
  ASSERT_FALSE(word_piece.ok());
  EXPECT_THAT(word_piece.error().message, HasSubstr("WordPiece"));
  SmallTokenizer dropout;
  dropout.model_options = R"("dropout":0.1,)";
  EXPECT_THAT(json_error(dropout), HasSubstr("dropout"));
  SmallTokenizer suffix;
  suffix.model_options = R"("end_of_word_suffix":"</w>",)";
  EXPECT_THAT(json_error(suffix), HasSubstr("end_of_word_suffix"));
}

TEST(JsonTokenizer, RefusesBrokenFilesInOneSentence) {
  const auto error = [](std::string_view text) {
    const auto tokenizer = Tokenizer::from_json(text);
    return tokenizer.ok() ? "no error" : tokenizer.error().message;
  };
  EXPECT_THAT(error("{"), HasSubstr("tokenizer.json"));
  EXPECT_THAT(error("[]"), HasSubstr("no model"));
  EXPECT_THAT(error(R"({"model":{"type":"BPE"}})"), HasSubstr("no vocab"));
  EXPECT_THAT(error(R"({"model":{"type":"BPE","vocab":{}}})"), HasSubstr("no merges"));
  EXPECT_THAT(error(R"({"model":{"type":"BPE","vocab":{"a":2000000000},"merges":[]}})"),
              HasSubstr("out of range"));
  EXPECT_THAT(error(R"({"model":{"type":"BPE","vocab":{"a":-1},"merges":[]}})"),
              HasSubstr("out of range"));
  EXPECT_THAT(error(R"({"model":{"type":"BPE","vocab":{"a":0,"b":0},"merges":[]}})"),
              HasSubstr("id 0"));
  EXPECT_THAT(error(R"({"model":{"type":"BPE","vocab":{"a":0},"merges":["a"]}})"),
              HasSubstr("Merge 0"));
  EXPECT_THAT(error(R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[],"unk_token":"u"}})"),
              HasSubstr("unk_token"));
  SmallTokenizer moved;
  moved.added = added_token(40, "a", "");
  EXPECT_THAT(json_error(moved), HasSubstr("alike"));
  SmallTokenizer bos;
  bos.config = R"({"bos_token":"<nowhere>"})";
  EXPECT_THAT(json_error(bos), HasSubstr("<nowhere>"));
}

}  // namespace
}  // namespace quire::context
