// Documents found by their words, and the pieces that go into a prompt.
#include "context/retrieval.h"

#include <gmock/gmock.h>

#include "context/scratch_folder.h"

namespace quire::context {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// A piece a line.
std::vector<TextChunk> lines_of(std::string_view text) {
  std::vector<TextChunk> chunks;
  int64_t line = 1;
  for (size_t begin = 0; begin < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    chunks.push_back(
        {.begin = begin, .end = end, .first_line = line, .last_line = line, .tokens = 1});
    begin = end + 1;
  }
  return chunks;
}

class Documents : public ::testing::Test {
 protected:
  DocumentStore::Added add(const std::string& source, const std::string& text) {
    return store_->add(source, text, lines_of(text), 0).value();
  }
  std::vector<std::string> found(const std::string& query) {
    std::vector<std::string> out;
    const auto chunks = store_->find(query, 100).value();
    for (const RetrievedChunk& chunk : chunks) out.push_back(chunk.text);
    return out;
  }
  ScratchFolder folder_;
  std::string path_ = folder_.file("documents.db");
  std::unique_ptr<DocumentStore> store_ = DocumentStore::open(path_).value();
};

TEST_F(Documents, AreFoundByAnyWordBestFirst) {
  add("a.txt", "pages are shared\nthe tree finds pages of prefixes\nnothing here");
  const auto chunks = store_->find("which prefixes does the tree find?", 10).value();
  ASSERT_THAT(chunks, SizeIs(1));
  EXPECT_EQ(chunks[0].text, "the tree finds pages of prefixes");
  EXPECT_EQ(chunks[0].label(), "a.txt, line 2");
  EXPECT_EQ(chunks[0].begin, 17u);
  EXPECT_GT(chunks[0].score, 0.0);
  EXPECT_THAT(found("?!"), IsEmpty());
}

TEST_F(Documents, FindChineseInsideARunAndTermsOfOneToThreeCharacters) {
  add("zh.txt", "引擎把键值缓存页放在内存里\n模型读取权重");
  for (const std::string query : {"缓存", "存", "缓存页", "缓存页什么时候释放？"}) {
    ASSERT_THAT(found(query), SizeIs(1)) << query;
  }
  EXPECT_THAT(found("重"), ElementsAre("模型读取权重"));
  EXPECT_THAT(found("磁盘"), IsEmpty());
}

TEST_F(Documents, AreReplacedAsAWhole) {
  EXPECT_EQ(add("a.txt", "first words"), DocumentStore::Added::kNew);
  EXPECT_EQ(add("a.txt", "first words"), DocumentStore::Added::kUnchanged);
  EXPECT_EQ(add("a.txt", "second words\nmore"), DocumentStore::Added::kReplaced);
  EXPECT_THAT(found("first"), IsEmpty());
  EXPECT_THAT(found("words"), ElementsAre("second words"));
  const auto list = store_->list().value();
  ASSERT_THAT(list, SizeIs(1));
  EXPECT_EQ(list[0].chunks, 2);
  EXPECT_EQ(list[0].tokens, 2);
}

TEST_F(Documents, AreWipedWhenRemoved) {
  add("a.txt", "xylophone 木琴之声");
  add("b.txt", "xylophone too");
  EXPECT_TRUE(store_->remove("a.txt").value());
  EXPECT_FALSE(store_->remove("a.txt").value());
  EXPECT_THAT(found("xylophone"), ElementsAre("xylophone too"));
  EXPECT_THAT(found("木琴"), IsEmpty());
  store_.reset();
  EXPECT_EQ(content_of(path_).find("木琴"), std::string::npos);
}

TEST_F(Documents, HaveAColumnForVectorsThatIsEmpty) {
  add("a.txt", "words");
  EXPECT_THAT(content_of(path_), HasSubstr("vector BLOB"));
}

RetrievedChunk chunk(int64_t id, const std::string& text, double score) {
  RetrievedChunk out;
  out.id = id;
  out.source = "a.txt";
  out.text = text;
  out.score = score;
  return out;
}

std::vector<int64_t> ids(const std::vector<RetrievedChunk>& chunks) {
  std::vector<int64_t> out;
  for (const RetrievedChunk& one : chunks) out.push_back(one.id);
  return out;
}

TEST(DiverseOrder, PrefersANewThoughtToACopy) {
  const std::vector<RetrievedChunk> candidates = {
      chunk(1, "pages are freed behind the window", 3.0),
      chunk(2, "pages are freed behind the window", 2.9),
      chunk(3, "pages are freed behind a window again", 2.8),
      chunk(4, "a codec seals full blocks", 2.0)};
  EXPECT_THAT(ids(diverse_order(candidates)), ElementsAre(1, 4, 3)) << "2 says nothing new";
  EXPECT_THAT(ids(diverse_order(candidates, 1.0)), ElementsAre(1, 3, 4)) << "relevance alone";
  EXPECT_THAT(diverse_order({}), IsEmpty());
}

TEST(Fitting, PicksOfASmallerRoomAreABeginningOfThoseOfALarger) {
  const auto length = [](const RetrievedChunk& one) { return std::ssize(one.text); };
  const std::vector<RetrievedChunk> picked = {chunk(1, "aaaa", 1), chunk(2, "bbbbbbbb", 1),
                                              chunk(3, "c", 1)};
  std::vector<int64_t> before;
  for (int64_t room = 0; room < 20; ++room) {
    const auto now = ids(fitting(picked, room, length));
    ASSERT_GE(now.size(), before.size());
    ASSERT_TRUE(std::equal(before.begin(), before.end(), now.begin()));
    before = now;
  }
  EXPECT_THAT(before, ElementsAre(1, 2, 3));
}

TEST(StableOrder, KeepsWhatStoodInTheLastPromptWhereItStood) {
  const std::vector<RetrievedChunk> chunks = {chunk(5, "", 9), chunk(2, "", 8), chunk(9, "", 7),
                                              chunk(1, "", 6)};
  EXPECT_THAT(ids(stable_order(chunks, {})), ElementsAre(1, 2, 5, 9));
  const std::vector<int64_t> earlier = {9, 4, 2};
  EXPECT_THAT(ids(stable_order(chunks, earlier)), ElementsAre(9, 2, 1, 5));
}

TEST(Rerank, AsksOnlyAboutTheBestAndSortsByTheAnswer) {
  std::vector<RetrievedChunk> candidates;
  for (int64_t id = 0; id < 30; ++id)
    candidates.push_back(chunk(id, "x", 30.0 - static_cast<double>(id)));
  int64_t asked = 0;
  const auto ranked = rerank(candidates, [&asked](const RetrievedChunk& one) -> Result<double> {
                        ++asked;
                        return static_cast<double>(one.id);
                      }).value();
  EXPECT_EQ(asked, 20);
  ASSERT_THAT(ranked, SizeIs(20));
  EXPECT_EQ(ranked.front().id, 19);
  const auto failed = rerank(candidates, [](const RetrievedChunk&) -> Result<double> {
    return Error{ErrorCode::kInterrupted, ""};
  });
  EXPECT_EQ(failed.error().code, ErrorCode::kInterrupted);
}

TEST(PromptText, NamesTheSourceAndIsUtf8) {
  RetrievedChunk one = chunk(1, "text \xff", 1);
  one.first_line = 3;
  one.last_line = 4;
  EXPECT_EQ(prompt_text(one), "[a.txt, lines 3-4]\ntext \uFFFD\n\n");
}

}  // namespace
}  // namespace quire::context
