// Stored conversations that grow too long: their next epoch is made in the background.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "context/scratch_folder.h"
#include "server/tiny_server.h"

namespace quire::server {
namespace {

using formats::Json;
using testing::HasSubstr;

constexpr int64_t kWindow = 512;
constexpr int64_t kHigh = 430;  // of the 504 tokens beside an answer of 8

/// Speaks slowly until it is released: nothing in the background runs meanwhile.
class SlowListener : public engine::RequestListener {
 public:
  explicit SlowListener(const std::atomic<bool>& released) : released_(released) {}
  void on_start(const engine::Reuse&) override {}
  void on_prefill(int64_t, int64_t) override {}
  void on_token(const engine::TokenEvent&) override {
    if (!released_.load()) std::this_thread::sleep_for(std::chrono::milliseconds(3));
  }
  void on_done(Result<engine::Generated>) override {}

 private:
  const std::atomic<bool>& released_;
};

class EpochsTest : public testing::Test {
 protected:
  void SetUp() override { start(); }
  ~EpochsTest() override { released_.store(true); }

  void start() {
    server_.reset();
    TinyServerOptions options;
    options.store = folder_.file("store.db");
    options.context = kWindow;
    server_ = std::make_unique<TinyServer>(options);
  }
  Json post(const std::string& path, const Json& body) {
    const RawResponse response = server_->post(path, body.dump());
    EXPECT_EQ(response.status, 200) << response.body;
    return response.json();
  }
  Json ask(const std::string& conversation, const char* input, bool store) {
    Json body;
    body.set("input", input);
    body.set("conversation", conversation);
    body.set("store", store);
    body.set("temperature", 0);
    body.set("max_output_tokens", 8);
    return post("/v1/responses", body);
  }
  static Json message(const char* role, const std::string& text) {
    Json json;
    json.set("role", role);
    json.set("content", text);
    return json;
  }
  static int64_t input_tokens(const Json& response) {
    return at(response, "usage.input_tokens").as_int().value_or(-1);
  }
  static int64_t cached_tokens(const Json& response) {
    return at(response, "usage.input_tokens_details.cached_tokens").as_int().value_or(-1);
  }
  /// A conversation whose next answer ends above the high watermark.
  std::string long_conversation() {
    const std::string id = text_at(post("/v1/conversations", Json(Json::Object{})), "id");
    for (int turn = 0; input_tokens(ask(id, "On?", false)) + 8 <= kHigh; ++turn) {
      Json items;
      const std::string number = std::to_string(turn);
      items.push_back(message("user", "Note " + number + "."));
      items.push_back(message("assistant", "Noted " + number + "."));
      Json body;
      body.set("items", std::move(items));
      post("/v1/conversations/" + id + "/items", body);
    }
    return id;
  }
  int64_t metric(const std::string& name) {
    const std::string page = server_->get("/metrics").body;
    const size_t at = page.find("\nquire_" + name + " ");
    EXPECT_NE(at, std::string::npos) << name;
    return at == std::string::npos ? -1 : std::stoll(page.substr(at + name.size() + 8));
  }
  void wait_until_idle() {
    for (int i = 0; i < 4000 && metric("epochs_under_way") != 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(metric("epochs_under_way"), 0);
  }
  size_t num_items(const std::string& id) {
    const Json list = server_->get("/v1/conversations/" + id + "/items?limit=100").json();
    return at(list, "data").as_array()->size();
  }
  /// A request that keeps the engine from everything in the background.
  void occupy() {
    engine::Request request;
    request.prompt = {TokenId{1}, TokenId{2}};
    request.options.max_tokens = kWindow - 16;
    for (const TokenId end : all_end_tokens(server_->model())) {
      request.options.sampling.logit_bias.emplace_back(end, -1e6);
    }
    ASSERT_TRUE(
        server_->loop().submit(std::move(request), std::make_unique<SlowListener>(released_)).ok());
  }

  context::ScratchFolder folder_;
  std::atomic<bool> released_{false};
  std::unique_ptr<TinyServer> server_;
};

TEST_F(EpochsTest, TheNextTurnReadsOnlyItsNewTokens) {
  const std::string id = long_conversation();
  const Json before = ask(id, "And one?", true);
  EXPECT_TRUE(at(before, "context.epoch").is_null());
  const size_t items = num_items(id);
  wait_until_idle();
  ASSERT_EQ(metric("epochs_switched_total"), 1);
  EXPECT_GT(metric("epoch_tokens_read_total"), 0);

  const Json after = ask(id, "And two?", false);
  EXPECT_LT(input_tokens(after), input_tokens(before));
  EXPECT_EQ(at(after, "context.epoch.stored_items").as_int(), static_cast<int64_t>(items));
  EXPECT_LT(*at(after, "context.epoch.items").as_int(), static_cast<int64_t>(items));
  const int64_t read = input_tokens(after) - cached_tokens(after);
  EXPECT_LT(read, 64 + 40) << "its own tokens and at most a page: " << after.dump();
  EXPECT_EQ(num_items(id), items) << "something was lost";

  // Nothing of it hangs on cached pages, or on this process.
  start();
  const Json cold = ask(id, "And two?", false);
  EXPECT_EQ(cached_tokens(cold), 0);
  EXPECT_EQ(input_tokens(cold), input_tokens(after));
  EXPECT_EQ(at(cold, "output.0.content"), at(after, "output.0.content"));
}

TEST_F(EpochsTest, AConversationGoesOnBeyondItsWindow) {
  const std::string id = long_conversation();
  for (int turn = 0; turn < 24; ++turn) {
    ask(id, "Tell me more about that, please.", true);
    wait_until_idle();
  }
  EXPECT_GE(metric("epochs_switched_total"), 3);
  EXPECT_EQ(metric("epochs_impossible_total"), 0);
}

TEST_F(EpochsTest, AChangeBeforeTheSwitchLeavesTheOldViewWhole) {
  const std::string id = long_conversation();
  occupy();
  const Json before = ask(id, "And one?", true);
  Json items;
  items.push_back(message("user", "Wait."));
  Json body;
  body.set("items", std::move(items));
  post("/v1/conversations/" + id + "/items", body);
  wait_until_idle();
  EXPECT_EQ(metric("epochs_switched_total"), 0);
  EXPECT_EQ(metric("epochs_cancelled_total"), 1);
  released_.store(true);
  const Json after = ask(id, "And two?", false);
  EXPECT_TRUE(at(after, "context.epoch").is_null());
  EXPECT_GT(input_tokens(after), input_tokens(before));
}

TEST_F(EpochsTest, AServerThatStopsBeforeTheSwitchLeavesTheOldViewWhole) {
  const std::string id = long_conversation();
  occupy();
  const Json before = ask(id, "And one?", true);
  start();
  const Json after = ask(id, "And two?", false);
  EXPECT_TRUE(at(after, "context.epoch").is_null());
  EXPECT_GT(input_tokens(after), input_tokens(before));
}

TEST_F(EpochsTest, AnItemThatIsDeletedIsInNoView) {
  const std::string id = long_conversation();
  ask(id, "And one?", true);
  wait_until_idle();
  ASSERT_EQ(metric("epochs_switched_total"), 1);
  const Json list = server_->get("/v1/conversations/" + id + "/items?limit=2").json();
  ASSERT_EQ(text_at(list, "data.1.content.0.text"), "And one?");
  const std::string shown = text_at(list, "data.1.id");
  RawClient client = server_->client();
  EXPECT_EQ(client.request("DELETE", "/v1/conversations/" + id + "/items/" + shown).status, 200);
  EXPECT_TRUE(at(ask(id, "And two?", false), "context.epoch").is_null());
}

}  // namespace
}  // namespace quire::server
