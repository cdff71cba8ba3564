// What the Tokenizer promises whatever the vocabulary: added tokens, inert text, ranges, decoding.
#include "context/tokenizer.h"

#include <gmock/gmock.h>

#include <random>
#include <thread>

#include "context/stream_decoder.h"
#include "context/tokenizer_testing.h"

namespace quire::context {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr const char* kByteLevel =
    R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":true})";
constexpr const char* kSpecial = R"("special":true)";

/// Characters, two control tokens, one user-defined token.
SmallTokenizer chat_tokenizer() {
  SmallTokenizer small;
  small.added = added_token(35, "<|im_start|>", kSpecial) + "," +
                added_token(36, "<|im_end|>", kSpecial) + "," + added_token(37, "<think>", "") +
                "," + added_token(38, "<|im_end|>x", kSpecial);
  return small;
}

TEST(Tokenizer, TakesTheLongestOfSeveralAddedTokensAtThePlaceFurthestLeft) {
  SmallTokenizer small;
  small.added = added_token(35, "ab", "") + "," + added_token(36, "abcd", "") + "," +
                added_token(37, "bcdef", "");
  const Tokenizer tokenizer = small.build();

  EXPECT_THAT(pieces(tokenizer, "abcdef"), ElementsAre("abcd", "e", "f"));
  EXPECT_THAT(pieces(tokenizer, "abcx"), ElementsAre("ab", "c", "x"));
  EXPECT_THAT(pieces(tokenizer, "xbcdef"), ElementsAre("x", "bcdef"));
}

TEST(Tokenizer, LeavesSpecialTokensAsTextInPlainTextButNotUserDefinedOnes) {
  const Tokenizer tokenizer = chat_tokenizer().build();

  EXPECT_THAT(encode(tokenizer, "<|im_start|>"), ElementsAre(35));
  EXPECT_EQ(encode(tokenizer, "<|im_start|>", Special::kPlain).size(), 12u);
  EXPECT_THAT(encode(tokenizer, "<think>", Special::kPlain), ElementsAre(37));
}

TEST(Tokenizer, ParsesSpecialTokensOnlyOutsideInertText) {
  const Tokenizer tokenizer = chat_tokenizer().build();
  const std::string text = "<|im_start|><|im_end|><think><|im_end|>";
  const ByteRange message{12, 29};

  const auto ids = numbers(tokenizer.encode(text, std::span(&message, 1)));

  ASSERT_EQ(ids.size(), 1u + 10u + 1u + 1u);
  EXPECT_EQ(ids.front(), 35);
  EXPECT_EQ(ids[11], 37);
  EXPECT_EQ(ids.back(), 36);
  EXPECT_THAT(std::vector<int32_t>(ids.begin() + 1, ids.begin() + 11),
              testing::Each(testing::Lt(35)));
}

TEST(Tokenizer, DoesNotLetAMessageCompleteASpecialTokenOfTheTemplate) {
  const Tokenizer tokenizer = chat_tokenizer().build();
  const std::string text = "<|im_start|>";
  for (size_t begin = 0; begin < text.size(); ++begin) {
    for (size_t end = begin + 1; end <= text.size(); ++end) {
      const ByteRange message{begin, end};
      EXPECT_EQ(tokenizer.encode(text, std::span(&message, 1)).size(), text.size());
    }
  }
}

TEST(Tokenizer, DoesNotLetAMessageSwallowASpecialTokenOfTheTemplate) {
  const Tokenizer tokenizer = chat_tokenizer().build();
  const ByteRange message{10, 11};  // "<|im_end|>x" is a token too, but its x is not the template's

  EXPECT_THAT(pieces(tokenizer, tokenizer.encode("<|im_end|>x", std::span(&message, 1))),
              ElementsAre("<|im_end|>", "x"));
  EXPECT_THAT(encode(tokenizer, "<|im_end|>x"), ElementsAre(38));
}

TEST(Tokenizer, TokenizesAcrossTheBordersOfInertTextAsOneText) {
  SmallTokenizer small;
  small.more_tokens = {"ab"};
  small.merges = {"a b"};
  const Tokenizer tokenizer = small.build();
  const ByteRange message{1, 2};

  EXPECT_THAT(pieces(tokenizer, tokenizer.encode("ab", std::span(&message, 1))), ElementsAre("ab"));
}

TEST(Tokenizer, StripsWhiteSpaceBesideAddedTokensThatSaySo) {
  SmallTokenizer small;
  small.characters += " ";
  small.added = added_token(36, "<l>", R"("lstrip":true)") + "," +
                added_token(37, "<r>", R"("rstrip":true)") + "," + added_token(38, "<n>", "");
  const Tokenizer tokenizer = small.build();

  EXPECT_THAT(pieces(tokenizer, "a  <l>  b"), ElementsAre("a", "<l>", " ", " ", "b"));
  EXPECT_THAT(pieces(tokenizer, "a  <r> \n b"), ElementsAre("a", " ", " ", "<r>", "b"));
  EXPECT_THAT(pieces(tokenizer, "a <n> b"), ElementsAre("a", " ", "<n>", " ", "b"));
  EXPECT_THAT(pieces(tokenizer, "<r>   <l>"), ElementsAre("<r>", "<l>"));
}

TEST(Tokenizer, MatchesSingleWordTokensOnlyWhereNoWordTouchesThem) {
  SmallTokenizer small;
  small.characters += " ";
  small.added = added_token(36, "abc", R"("single_word":true)");
  const Tokenizer tokenizer = small.build();

  EXPECT_THAT(encode(tokenizer, "abc"), ElementsAre(36));
  EXPECT_THAT(pieces(tokenizer, "<abc>"), ElementsAre("<", "abc", ">"));
  EXPECT_THAT(pieces(tokenizer, "abcd"), ElementsAre("a", "b", "c", "d"));
  EXPECT_THAT(pieces(tokenizer, "_abc"), ElementsAre("_", "a", "b", "c"));
}

TEST(Tokenizer, SeeksNormalizedAddedTokensInTheNormalizedText) {
  SmallTokenizer small;
  small.normalizer = R"({"type":"Replace","pattern":{"String":"x"},"content":"y"})";
  small.added = added_token(35, "axb", R"("normalized":true,"special":true)") + "," +
                added_token(36, "cxd", R"("normalized":false)");
  const Tokenizer tokenizer = small.build();
  const ByteRange message{0, 3};

  EXPECT_THAT(encode(tokenizer, "ayb"), ElementsAre(35));
  EXPECT_THAT(encode(tokenizer, "axb"), ElementsAre(35));
  EXPECT_THAT(encode(tokenizer, "cxd"), ElementsAre(36));
  EXPECT_THAT(pieces(tokenizer, "cyd"), ElementsAre("c", "y", "d"));
  EXPECT_EQ(tokenizer.encode("axbaxb", std::span(&message, 1)).size(), 4u);
}

TEST(Tokenizer, FallsBackToBytesForIllFormedText) {
  SmallTokenizer small;
  small.model_options = R"("byte_fallback":true,)";
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    small.more_tokens.emplace_back(name);
  }
  const Tokenizer tokenizer = small.build();
  const std::string text =
      "a\xFF\xE4\xBD"
      "b\xC3\xA9";

  EXPECT_THAT(pieces(tokenizer, text),
              ElementsAre("a", "\xFF", "\xE4", "\xBD", "b", "\xC3", "\xA9"));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, Special::kParse), SpecialText::kShow), text);
}

TEST(Tokenizer, MakesOneUnknownTokenOfARunWhereTheModelFuses) {
  SmallTokenizer small;
  small.more_tokens = {"<unk>"};
  small.model_options = R"("unk_token":"<unk>","fuse_unk":true,)";
  EXPECT_THAT(pieces(small.build(), "a\u4F60\u597Db"), ElementsAre("a", "<unk>", "b"));

  small.model_options = R"("unk_token":"<unk>","fuse_unk":false,)";
  EXPECT_THAT(pieces(small.build(), "a\u4F60\u597Db"), ElementsAre("a", "<unk>", "<unk>", "b"));
}

TEST(Tokenizer, NeverMergesTextIntoASpecialToken) {
  SmallTokenizer small;
  small.more_tokens = {"<s", "<s>"};
  small.merges = {"< s", "<s >"};
  small.added = added_token(36, "<s>", kSpecial);
  const Tokenizer tokenizer = small.build();

  EXPECT_THAT(encode(tokenizer, "<s>"), ElementsAre(36));
  EXPECT_THAT(pieces(tokenizer, "<s>", Special::kPlain), ElementsAre("<s", ">"));
}

TEST(Tokenizer, SkipsSpecialTokensWhenDecodingIfAsked) {
  const Tokenizer tokenizer = chat_tokenizer().build();
  const auto ids = tokenizer.encode("<|im_start|>a<think>b", Special::kParse);

  EXPECT_EQ(tokenizer.decode(ids, SpecialText::kSkip), "a<think>b");
  EXPECT_EQ(tokenizer.decode(ids, SpecialText::kShow), "<|im_start|>a<think>b");
}

TEST(Tokenizer, HasNoTextForIdsBeyondItsVocabulary) {
  const Tokenizer tokenizer = chat_tokenizer().build();
  const TokenId beyond{tokenizer.vocab_size()};

  EXPECT_EQ(tokenizer.piece(beyond), "");
  EXPECT_EQ(tokenizer.kind(beyond), TokenKind::kUnused);
  EXPECT_EQ(tokenizer.decode(std::vector{beyond, TokenId{0}, TokenId{-1}}, SpecialText::kShow),
            "a");
}

TEST(Tokenizer, KnowsWhichTokensEndAnAnswer) {
  SmallTokenizer small = chat_tokenizer();
  small.config = R"({"eos_token":{"content":"z"},"bos_token":"<|im_start|>"})";
  const Tokenizer tokenizer = small.build();

  EXPECT_THAT(numbers(tokenizer.end_of_generation()), ElementsAre(25, 36));
  EXPECT_TRUE(tokenizer.is_end_of_generation(TokenId{36}));
  EXPECT_FALSE(tokenizer.is_end_of_generation(TokenId{35}));
  EXPECT_EQ(tokenizer.bos(), TokenId{35});
  EXPECT_FALSE(tokenizer.add_bos());
}

TEST(Tokenizer, CallsEndATurnUnlessTheModelHasAReturn) {
  SmallTokenizer small;
  small.added = added_token(35, "<|end|>", kSpecial);
  EXPECT_THAT(numbers(small.build().end_of_generation()), ElementsAre(35));
  small.added += "," + added_token(36, "<|return|>", kSpecial);
  EXPECT_THAT(numbers(small.build().end_of_generation()), ElementsAre(36));
}

TEST(Tokenizer, PlacesItsTokensInTheTextWithoutGapsWhateverNormalizersDo) {
  SmallTokenizer small;
  small.characters += " ";
  small.more_tokens = {"\u00E9", "\u2581"};
  small.normalizer =
      R"({"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Prepend","prepend":"\u2581"}]})";
  small.added = added_token(38, "<think>", "");
  const Tokenizer tokenizer = small.build();

  const auto encoding = tokenizer.encode_with_ranges("ae\u0301b<think>c", {});

  EXPECT_THAT(pieces(tokenizer, encoding.ids),
              ElementsAre("\u2581", "a", "\u00E9", "b", "<think>", "\u2581", "c"));
  EXPECT_THAT(encoding.ranges,
              ElementsAre(ByteRange{0, 0}, ByteRange{0, 1}, ByteRange{1, 4}, ByteRange{4, 5},
                          ByteRange{5, 12}, ByteRange{12, 12}, ByteRange{12, 13}));
}

TEST(Tokenizer, GivesTheSameIdsFromManyThreads) {
  SmallTokenizer small = chat_tokenizer();
  small.pre_tokenizer = kByteLevel;
  const Tokenizer tokenizer = small.build();
  const std::string text(3000, 'a');
  const auto expected = tokenizer.encode(text, Special::kParse);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int repeat = 0; repeat < 20; ++repeat) {
        EXPECT_EQ(tokenizer.encode(text, Special::kParse), expected);
      }
    });
  }
}

/// Byte-level: the characters for the bytes of an emoji, one token each.
SmallTokenizer emoji_tokenizer() {
  SmallTokenizer small;
  small.pre_tokenizer = kByteLevel;
  small.decoder = R"({"type":"ByteLevel"})";
  small.more_tokens = {"\u00F0", "\u0141", "\u013A", "\u0122", "\u00FF"};  // F0 9F 98 80, FF
  small.added = added_token(40, "<|im_end|>", kSpecial);
  return small;
}

TEST(StreamDecoder, HoldsBackHalfACharacter) {
  const Tokenizer tokenizer = emoji_tokenizer().build();
  StreamDecoder decoder(tokenizer, SpecialText::kSkip, StreamDecoder::Start::kOfText);
  std::vector<std::string> texts;
  for (const TokenId id : tokenizer.encode("a\U0001F600b", Special::kParse)) {
    texts.push_back(decoder.push(id));
  }
  EXPECT_THAT(texts, ElementsAre("a", "", "", "", "\U0001F600", "b"));
  EXPECT_THAT(decoder.finish(), IsEmpty());
}

TEST(StreamDecoder, ReplacesBytesThatCannotBecomeACharacter) {
  const Tokenizer tokenizer = emoji_tokenizer().build();
  StreamDecoder decoder(tokenizer, SpecialText::kShow, StreamDecoder::Start::kOfText);
  const TokenId lead = *tokenizer.find("\u00F0");

  EXPECT_EQ(decoder.push(lead), "");
  EXPECT_EQ(decoder.held(), "\xF0");
  EXPECT_EQ(decoder.push(*tokenizer.find("a")), "\uFFFDa");
  EXPECT_EQ(decoder.push(*tokenizer.find("\u00FF")), "\uFFFD");
  EXPECT_EQ(decoder.push(lead), "");
  EXPECT_EQ(decoder.finish(), "\xF0");
  EXPECT_EQ(decoder.push(*tokenizer.find("<|im_end|>")), "<|im_end|>");
}

TEST(StreamDecoder, DropsTheLeadingSpaceOfATextButNotOfAContinuation) {
  SmallTokenizer small;
  small.more_tokens = {"\u2581"};
  small.normalizer = R"({"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"\u2581"},
      {"type":"Replace","pattern":{"String":" "},"content":"\u2581"}]})";
  small.decoder = R"({"type":"Sequence","decoders":[
      {"type":"Replace","pattern":{"String":"\u2581"},"content":" "},{"type":"ByteFallback"},
      {"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]})";
  const Tokenizer tokenizer = small.build();
  const auto ids = tokenizer.encode(" a", Special::kParse);
  const auto streamed = [&](StreamDecoder::Start start) {
    StreamDecoder decoder(tokenizer, SpecialText::kShow, start);
    std::string text;
    for (const TokenId id : ids) text += decoder.push(id);
    return text;
  };

  EXPECT_EQ(pieces(tokenizer, ids), (std::vector<std::string>{" ", " ", "a"}));
  EXPECT_EQ(tokenizer.decode(ids, SpecialText::kShow), " a");
  EXPECT_EQ(streamed(StreamDecoder::Start::kOfText), " a");
  EXPECT_EQ(streamed(StreamDecoder::Start::kContinuation), "  a");
}

}  // namespace
}  // namespace quire::context
