// Conversations that outlive the process.
#include "context/conversation_store.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <thread>

#include "context/scratch_folder.h"

namespace quire::context {
namespace {

using formats::Json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::string_view kMe = kLocalOwner;

NewMessage message(std::string role, std::string content) {
  return {.role = std::move(role),
          .content = std::move(content),
          .fields = {},
          .tokens = {},
          .model = ""};
}

class ConversationStoreTest : public ::testing::Test {
 protected:
  std::unique_ptr<ConversationStore> open() {
    return ConversationStore::open(path_, [this] { return ++now_; }).value();
  }
  ConversationInfo created(const std::string& name) {
    return store_->create(kMe, name, Json(Json::Object{})).value();
  }
  MessageId add(ConversationId id, std::optional<MessageId> parent, const std::string& role,
                const std::string& content) {
    return store_->append(id, parent, std::array{message(role, content)}).value().front();
  }
  std::vector<std::string> texts(ConversationId id, std::optional<MessageId> head) {
    std::vector<std::string> out;
    const std::vector<StoredMessage> path = store_->path(id, head).value();
    for (const StoredMessage& stored : path) {
      out.push_back(stored.message.content);
    }
    return out;
  }
  std::vector<std::string> found(const std::string& query) {
    std::vector<std::string> out;
    const std::vector<SearchHit> hits = store_->search(kMe, query, 100).value();
    for (const SearchHit& hit : hits) {
      out.push_back(hit.message.message.content);
    }
    return out;
  }

  ScratchFolder folder_;
  std::string path_ = folder_.file("conversations.db");
  int64_t now_ = 1000;
  std::unique_ptr<ConversationStore> store_ = open();
};

TEST_F(ConversationStoreTest, KeepsMessagesWithAllTheyHold) {
  const ConversationInfo info = created("talk");
  NewMessage answer = message("assistant", "");
  answer.fields.set("tool_calls", Json(Json::Array{Json("x")}));
  answer.tokens = {TokenId{7}, TokenId{1 << 20}};
  answer.model = "smollm2";
  const MessageId asked = add(info.id, std::nullopt, "user", std::string("a\0b", 3));
  store_->append(info.id, asked, std::array{answer}).value();

  store_ = open();
  const auto path = store_->path(info.id, store_->find(kMe, "talk").value()->head).value();
  ASSERT_THAT(path, SizeIs(2));
  EXPECT_EQ(path[0].message.content, std::string("a\0b", 3));
  EXPECT_EQ(path[1].parent, asked);
  EXPECT_EQ(path[1].message.fields, answer.fields);
  EXPECT_EQ(path[1].message.tokens, answer.tokens);
  EXPECT_EQ(path[1].message.model, "smollm2");
}

TEST_F(ConversationStoreTest, EditingBeginsABranchAndLosesNothing) {
  const ConversationInfo info = created("talk");
  const MessageId first = add(info.id, std::nullopt, "user", "first");
  const MessageId answer = add(info.id, first, "assistant", "one");
  const MessageId other = add(info.id, first, "assistant", "two");

  EXPECT_THAT(texts(info.id, other), ElementsAre("first", "two"));
  EXPECT_THAT(texts(info.id, answer), ElementsAre("first", "one"));
  const auto now = store_->find(kMe, "talk").value();
  EXPECT_EQ(now->head, other);
  EXPECT_EQ(now->messages, 3);
  EXPECT_EQ(now->branches, 2);
  store_->set_head(info.id, answer).value();
  EXPECT_EQ(store_->find(kMe, "talk").value()->head, answer);
  store_->set_head(info.id, std::nullopt).value();
  EXPECT_EQ(store_->find(kMe, "talk").value()->head, std::nullopt);
  EXPECT_THAT(store_->all_messages(info.id).value(), SizeIs(3));
}

TEST_F(ConversationStoreTest, RefusesAMessageOfAnotherConversationAsParent) {
  const ConversationInfo one = created("one");
  const ConversationInfo two = created("two");
  const MessageId message_of_one = add(one.id, std::nullopt, "user", "hello");
  EXPECT_FALSE(store_->append(two.id, message_of_one, std::array{message("user", "x")}).ok());
  EXPECT_FALSE(store_->set_head(two.id, message_of_one).ok());
  EXPECT_FALSE(store_->path(two.id, message_of_one).ok());
  EXPECT_FALSE(store_->append(one.id, MessageId{99}, std::array{message("user", "x")}).ok());
  EXPECT_THAT(store_->all_messages(two.id).value(), IsEmpty());
}

TEST_F(ConversationStoreTest, SeveralMessagesAreAddedTogetherOrNotAtAll) {
  const ConversationInfo info = created("talk");
  store_->remove(info.id).value();
  const std::array both = {message("user", "question"), message("assistant", "answer")};
  EXPECT_FALSE(store_->append(info.id, std::nullopt, both).ok());
  EXPECT_THAT(found("question"), IsEmpty());
}

TEST_F(ConversationStoreTest, AnOwnerSeesOnlyTheOwn) {
  const ConversationInfo info = store_->create("key-1", "talk", Json(Json::Object{})).value();
  const MessageId asked = add(info.id, std::nullopt, "user", "secret words");
  store_->set_handle("key-1", "resp_1", asked).value();

  EXPECT_EQ(store_->find("key-2", "talk").value(), std::nullopt);
  EXPECT_EQ(store_->find_by_handle("key-2", info.handle).value(), std::nullopt);
  EXPECT_THAT(store_->list("key-2").value(), IsEmpty());
  EXPECT_THAT(store_->search("key-2", "secret", 10).value(), IsEmpty());
  EXPECT_FALSE(store_->find_message("key-2", "resp_1").value().has_value());

  EXPECT_EQ(store_->find_by_handle("key-1", info.handle).value()->id, info.id);
  EXPECT_EQ(store_->find_message("key-1", "resp_1").value()->message, asked);
  EXPECT_TRUE(store_->create("key-2", "talk", Json(Json::Object{})).ok());
}

TEST_F(ConversationStoreTest, RefusesNamesThatAreTakenOrCannotBeShown) {
  created("talk");
  EXPECT_THAT(store_->create(kMe, "talk", {}).error().message, HasSubstr("already"));
  EXPECT_FALSE(store_->create(kMe, "a\nb", {}).ok());
  EXPECT_FALSE(store_->create(kMe, std::string("a\0b", 3), {}).ok());
  EXPECT_FALSE(store_->create(kMe, "\xff", {}).ok());
  EXPECT_FALSE(store_->create(kMe, std::string(201, 'x'), {}).ok());
  EXPECT_TRUE(store_->create(kMe, "谈话 'quoted\"; --", {}).ok());
}

TEST_F(ConversationStoreTest, FindsChineseInsideARunAndTermsOfOneToThreeCharacters) {
  const ConversationInfo info = created("谈话");
  const std::string text = "引擎把键值缓存页放在内存里";
  add(info.id, std::nullopt, "user", text);
  for (const std::string query : {"缓存", "存", "引", "里", "缓存页", "键值缓存页", "内存"}) {
    EXPECT_THAT(found(query), ElementsAre(text)) << query;
  }
  EXPECT_THAT(found("存缓"), IsEmpty());
  EXPECT_THAT(found("存放"), IsEmpty());
}

TEST_F(ConversationStoreTest, FindsWhateverTheCaseAndWhateverTheUserWrites) {
  const ConversationInfo info = created("talk");
  add(info.id, std::nullopt, "user", "Does the café's PAGE table grow?");
  EXPECT_THAT(found("page cafe"), SizeIs(1));
  EXPECT_THAT(found("page absent"), IsEmpty());
  for (const std::string query :
       {"page AND (", "\"page", "words:page OR", "page*", "NOT NEAR(a b)"}) {
    EXPECT_TRUE(store_->search(kMe, query, 10).ok()) << query;
  }
  EXPECT_EQ(store_->search(kMe, "?!", 10).error().code, ErrorCode::kUsage);
}

TEST_F(ConversationStoreTest, AForkSharesNothing) {
  const ConversationInfo info = created("talk");
  const MessageId first = add(info.id, std::nullopt, "user", "question");
  add(info.id, first, "assistant", "answer");
  const ConversationInfo fork = store_->fork(kMe, info.id, "copy", first).value();
  EXPECT_THAT(texts(fork.id, fork.head), ElementsAre("question"));
  add(fork.id, fork.head, "assistant", "another");
  store_->remove(info.id).value();
  EXPECT_THAT(texts(fork.id, store_->find(kMe, "copy").value()->head),
              ElementsAre("question", "another"));
  EXPECT_FALSE(store_->fork(kMe, fork.id, "copy", std::nullopt).ok());
  EXPECT_THAT(store_->list(kMe).value(), SizeIs(1));
}

TEST_F(ConversationStoreTest, WipesWhatWasRemoved) {
  const ConversationInfo info = created("talk");
  const MessageId asked = add(info.id, std::nullopt, "user", "xylophone 木琴之声");
  store_->set_handle(kMe, "resp_1", asked).value();
  store_
      ->add_view(info.id,
                 {.id = {}, .head = asked, .policy = "summarize", .items = {{asked, asked, "s"}}})
      .value();
  store_->remove(info.id).value();
  EXPECT_THAT(found("xylophone"), IsEmpty());
  EXPECT_FALSE(store_->find_message(kMe, "resp_1").value().has_value());
  store_.reset();
  const std::string bytes = content_of(path_) + content_of(path_ + "-wal");
  EXPECT_EQ(bytes.find("xylophone"), std::string::npos);
  EXPECT_EQ(bytes.find("木琴"), std::string::npos);
}

TEST_F(ConversationStoreTest, CompactionAddsAViewAndDeletesNothing) {
  const ConversationInfo info = created("talk");
  const MessageId first = add(info.id, std::nullopt, "user", "question");
  const MessageId second = add(info.id, first, "assistant", "answer");
  const MessageId third = add(info.id, second, "user", "more");
  const View view{
      .id = {}, .head = second, .policy = "summarize", .items = {{first, second, "both"}}};
  const ViewId added = store_->add_view(info.id, view).value();

  const auto seen = store_->view_for(info.id, third).value();
  ASSERT_TRUE(seen.has_value());
  EXPECT_EQ(seen->head, second);
  EXPECT_EQ(seen->policy, "summarize");
  ASSERT_THAT(seen->items, SizeIs(1));
  EXPECT_EQ(seen->items[0].last, second);
  EXPECT_EQ(seen->items[0].summary, "both");
  EXPECT_THAT(texts(info.id, third), ElementsAre("question", "answer", "more"));
  EXPECT_FALSE(store_->view_for(info.id, first).value().has_value()) << "a branch without it";

  store_->drop_view(added).value();
  EXPECT_FALSE(store_->view_for(info.id, third).value().has_value());
  EXPECT_FALSE(
      store_->add_view(info.id, {.id = {}, .head = MessageId{77}, .policy = "", .items = {}}).ok());
}

TEST_F(ConversationStoreTest, AddsABranchWithoutGoingOnWithIt) {
  const ConversationInfo info = created("talk");
  const MessageId first = add(info.id, std::nullopt, "user", "question");
  NewMessage aside = message("user", "aside");
  aside.handle = "resp_2";
  const auto ids =
      store_->append(info.id, first, std::array{aside}, ConversationStore::GoOn::kAsBefore).value();
  EXPECT_EQ(store_->find(kMe, "talk").value()->head, first);
  EXPECT_EQ(store_->find_message(kMe, "resp_2").value()->message, ids.front());
  EXPECT_FALSE(store_->find_message("another", "resp_2").value().has_value());
  EXPECT_THAT(texts(info.id, ids.front()), ElementsAre("question", "aside"));
}

TEST_F(ConversationStoreTest, ErasesAMessageFromItsMiddle) {
  const ConversationInfo info = created("talk");
  const MessageId first = add(info.id, std::nullopt, "user", "xylophone 木琴之声");
  const MessageId second = add(info.id, first, "assistant", "answer");
  store_->set_handle(kMe, "resp_1", first).value();
  const View view{
      .id = {}, .head = second, .policy = "auto", .items = {{first, second, "xylophone"}}};
  store_->add_view(info.id, view).value();
  store_->erase(info.id, std::array{first}).value();
  EXPECT_THAT(texts(info.id, second), ElementsAre("", "answer"));
  EXPECT_EQ(store_->path(info.id, second).value().front().message.role, kErasedRole);
  EXPECT_THAT(found("xylophone"), IsEmpty());
  EXPECT_FALSE(store_->find_message(kMe, "resp_1").value().has_value());
  EXPECT_FALSE(store_->view_for(info.id, second).value().has_value());
  EXPECT_FALSE(store_->erase(info.id, std::array{MessageId{77}}).ok());
  store_->erase(info.id, std::array{first}).value();
  store_->remove(info.id).value();
  store_.reset();
  const std::string bytes = content_of(path_) + content_of(path_ + "-wal");
  EXPECT_EQ(bytes.find("xylophone"), std::string::npos);
  EXPECT_EQ(bytes.find("木琴"), std::string::npos);
}

TEST_F(ConversationStoreTest, IsPrivate) {
  struct stat info {};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600);
}

TEST_F(ConversationStoreTest, ServesSeveralStoresAndThreadsAtOnce) {
  const ConversationInfo info = created("talk");
  constexpr int kThreads = 4;
  constexpr int kEach = 10;
  const auto other = ConversationStore::open(path_).value();
  std::vector<std::thread> threads;
  std::array<bool, kThreads> fine{};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      bool ok = true;
      for (int i = 0; i < kEach; ++i) {
        ConversationStore& store = t % 2 == 0 ? *store_ : *other;
        ok &= store.append(info.id, std::nullopt, std::array{message("user", "x")}).ok();
      }
      fine[static_cast<size_t>(t)] = ok;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(fine, ::testing::Each(true));
  EXPECT_EQ(store_->find(kMe, "talk").value()->messages, kThreads * kEach);
}

}  // namespace
}  // namespace quire::context
