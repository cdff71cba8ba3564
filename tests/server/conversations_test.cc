// Responses and conversations that the server keeps: going on, branches, owners, deletion.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "context/conversation_schema.h"
#include "context/scratch_folder.h"
#include "server/tiny_server.h"

namespace quire::server {
namespace {

using formats::Json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

/// {"name": value, ...} without the braces, behind what all requests of these tests say.
std::string asking(std::string_view input, std::string_view more = "") {
  std::string body = R"({"temperature":0,"max_output_tokens":8,"input":)";
  body += input.starts_with('[') ? std::string(input) : Json(input).dump();
  if (!more.empty()) body += "," + std::string(more);
  return body + "}";
}

std::string previous(const Json& response) {
  return R"("previous_response_id":")" + text_at(response, "id") + "\"";
}

std::string output_text(const Json& response) {
  return text_at(response, "output.0.content.0.text");
}

class ConversationsTest : public testing::Test {
 protected:
  TinyServer& server() {
    if (!server_) start();
    return *server_;
  }
  void start(TinyServerOptions options = {}) {
    server_.reset();
    options.store = path_;
    options.context = context_;
    server_ = std::make_unique<TinyServer>(options);
  }
  RawResponse raw(std::string_view method, std::string_view path, std::string_view body = "",
                  const std::string& key = "") {
    return server().client().request(method, path, body,
                                     key.empty() ? "" : "Authorization: Bearer " + key + "\r\n");
  }
  Json call(std::string_view method, std::string_view path, std::string_view body = "",
            int status = 200) {
    const RawResponse response = raw(method, path, body);
    EXPECT_EQ(response.status, status) << method << " " << path << " " << body << "\n"
                                       << response.body;
    return response.json();
  }
  Json post(std::string_view path, std::string_view body, int status = 200) {
    return call("POST", path, body, status);
  }
  Json get(std::string_view path, int status = 200) { return call("GET", path, "", status); }
  Json ask(std::string_view input, std::string_view more = "", int status = 200) {
    return post("/v1/responses", asking(input, more), status);
  }
  std::unique_ptr<context::Database> another_program() {
    return context::Database::open(path_, context::kConversationDatabase).value();
  }
  std::string new_conversation(std::string_view body = "{}") {
    return text_at(post("/v1/conversations", body), "id");
  }
  std::vector<std::string> texts(const std::string& list_path) {
    std::vector<std::string> out;
    const Json list = get(list_path);
    for (const Json& item : *at(list, "data").as_array()) {
      out.push_back(text_at(item, "content.0.text"));
    }
    return out;
  }

  context::ScratchFolder folder_;
  std::string path_ = folder_.file("store.db");
  int64_t context_ = 512;

 private:
  std::unique_ptr<TinyServer> server_;
};

// --- going on ----------------------------------------------------------------------------------

TEST_F(ConversationsTest, AResponseGoesOnAsIfTheClientSentTheWhole) {
  const Json first = ask("Hello there");
  const Json second = ask("And now?", previous(first));
  EXPECT_EQ(text_at(second, "previous_response_id"), text_at(first, "id"));
  EXPECT_EQ(at(second, "store"), Json(true));

  Json whole(Json::Array{});
  whole.push_back(json(R"({"role":"user","content":"Hello there"})"));
  whole.push_back(at(first, "output.0"));
  whole.push_back(json(R"({"role":"user","content":"And now?"})"));
  const Json told = ask(whole.dump(), R"("store":false)");
  EXPECT_EQ(output_text(second), output_text(told));
  EXPECT_EQ(at(second, "usage.input_tokens"), at(told, "usage.input_tokens"));
}

TEST_F(ConversationsTest, AColdCacheChangesNoAnswer) {
  const Json first = ask("Hello there");
  const Json warm = ask("And now?", previous(first));
  EXPECT_GT(*at(warm, "usage.input_tokens_details.cached_tokens").as_int(), 0);
  start();  // another process, as far as the cache goes
  const Json cold = ask("And now?", previous(first));
  EXPECT_EQ(at(cold, "usage.input_tokens_details.cached_tokens").as_int(), 0);
  EXPECT_EQ(output_text(cold), output_text(warm));
  const Json unread = ask("And now?", previous(first) + R"(,"cache_prompt":false)");
  EXPECT_EQ(output_text(unread), output_text(warm));
}

TEST_F(ConversationsTest, AskingAgainMakesABranchAndLosesNothing) {
  const Json first = ask("Hello there");
  const Json left = ask("Left", previous(first));
  const Json right = ask("Right", previous(first));
  const Json after_left = ask("On", previous(left));
  const Json after_right = ask("On", previous(right));
  const auto expect_told_whole = [&](const Json& turn, const char* text, const Json& last) {
    Json whole(Json::Array{});
    whole.push_back(json(R"({"role":"user","content":"Hello there"})"));
    whole.push_back(at(first, "output.0"));
    whole.push_back(json(std::string(R"({"role":"user","content":")") + text + "\"}"));
    whole.push_back(at(turn, "output.0"));
    whole.push_back(json(R"({"role":"user","content":"On"})"));
    const Json told = ask(whole.dump(), R"("store":false)");
    EXPECT_EQ(output_text(last), output_text(told));
    EXPECT_EQ(at(last, "usage.input_tokens"), at(told, "usage.input_tokens"));
  };
  expect_told_whole(left, "Left", after_left);
  expect_told_whole(right, "Right", after_right);
  for (const Json& each : {first, left, right, after_left, after_right}) {
    EXPECT_EQ(get("/v1/responses/" + text_at(each, "id")), each);
  }
}

TEST_F(ConversationsTest, InstructionsAreNotCarriedOver) {
  const Json first = ask("Hello", R"("instructions":"Speak of nothing but the sea, please.")");
  const Json with = ask("On", previous(first) + R"(,"instructions":"Speak of the sea.")");
  const Json without = ask("On", previous(first));
  EXPECT_GT(*at(with, "usage.input_tokens").as_int(), *at(without, "usage.input_tokens").as_int());
}

TEST_F(ConversationsTest, StreamsAreStoredBeforeTheirLastEvent) {
  const RawResponse stream =
      raw("POST", "/v1/responses", asking("Hello there", R"("stream":true)"));
  const Json last = json(stream.events().back());
  EXPECT_EQ(text_at(last, "type"), "response.incomplete");
  EXPECT_EQ(get("/v1/responses/" + text_at(last, "response.id")), at(last, "response"));
}

TEST_F(ConversationsTest, WhatIsNotToBeStoredIsNot) {
  const Json response = ask("Hello there", R"("store":false)");
  EXPECT_EQ(at(response, "store"), Json(false));
  get("/v1/responses/" + text_at(response, "id"), 404);
  const Json error = ask("On", previous(response), 404);
  EXPECT_EQ(text_at(error, "error.param"), "previous_response_id");
  EXPECT_EQ(text_at(error, "error.code"), "previous_response_not_found");
}

TEST_F(ConversationsTest, GoesOnWithoutBeingStored) {
  const Json first = ask("Hello there");
  const Json aside = ask("And now?", previous(first) + R"(,"store":false)");
  const Json kept = ask("And now?", previous(first));
  EXPECT_EQ(output_text(aside), output_text(kept));
  get("/v1/responses/" + text_at(aside, "id"), 404);
}

TEST_F(ConversationsTest, CallsAndTheirResultsAreGoneOnWith) {
  const std::string tools = R"("tools":[{"type":"function","name":"weather","parameters":{
      "type":"object","properties":{},"additionalProperties":false}}])";
  const Json called = ask("Weather?", tools + R"(,"tool_choice":"required",
      "parallel_tool_calls":false,"max_output_tokens":100)");
  ASSERT_EQ(text_at(called, "output.0.type"), "function_call");
  const std::string result = R"([{"type":"function_call_output","call_id":")" +
                             text_at(called, "output.0.call_id") + R"(","output":"sunny"}])";
  const Json answer = ask(result, tools + "," + previous(called));
  EXPECT_EQ(text_at(answer, "output.0.type"), "message");
  const Json inputs = get("/v1/responses/" + text_at(answer, "id") + "/input_items");
  EXPECT_EQ(text_at(inputs, "data.0.type"), "function_call_output");
  EXPECT_EQ(text_at(inputs, "data.0.output"), "sunny");
}

TEST_F(ConversationsTest, RefusesTwoBeginnings) {
  const Json first = ask("Hello");
  const Json error = ask("On", previous(first) + R"(,"conversation":"conv_1")", 400);
  EXPECT_EQ(text_at(error, "error.param"), "previous_response_id");
  for (const char* wrong :
       {R"("conversation":7)", R"("conversation":{})", R"("conversation":"")",
        R"("previous_response_id":[])", R"("store":"yes")", R"("metadata":{"a":1})"}) {
    ask("On", wrong, 400);
  }
  EXPECT_EQ(text_at(ask("On", R"("conversation":"conv_nobodys")", 404), "error.param"),
            "conversation");
}

// --- conversations -----------------------------------------------------------------------------

TEST_F(ConversationsTest, AConversationGrowsWithItsResponses) {
  const std::string id = new_conversation(
      R"({"metadata":{"topic":"sea"},"items":[{"role":"user","content":"I am Ada."}]})");
  EXPECT_THAT(id, StartsWith("conv_"));
  const Json shown = get("/v1/conversations/" + id);
  EXPECT_EQ(text_at(shown, "object"), "conversation");
  EXPECT_EQ(text_at(shown, "metadata.topic"), "sea");
  EXPECT_TRUE(at(shown, "created_at").is_int());

  const std::string in = R"("conversation":")" + id + "\"";
  const Json first = ask("Who am I?", in);
  EXPECT_EQ(text_at(first, "conversation.id"), id);
  const Json second = ask("Again?", R"("conversation":{"id":")" + id + "\"}");
  EXPECT_THAT(
      texts("/v1/conversations/" + id + "/items?order=asc"),
      ElementsAre("I am Ada.", "Who am I?", output_text(first), "Again?", output_text(second)));
  EXPECT_THAT(texts("/v1/responses/" + text_at(second, "id") + "/input_items"),
              ElementsAre("Again?"));

  // A branch from one of its responses leaves the conversation as it is.
  const Json branch = ask("Elsewhere", previous(first));
  EXPECT_THAT(texts("/v1/conversations/" + id + "/items?limit=1"),
              ElementsAre(output_text(second)));
  EXPECT_EQ(get("/v1/responses/" + text_at(branch, "id")), branch);
}

TEST_F(ConversationsTest, ListsPageByPageInBothOrders) {
  const std::string id = new_conversation();
  const std::string items = "/v1/conversations/" + id + "/items";
  const Json added = post(items, R"({"items":[{"role":"user","content":"a"},
      {"type":"message","role":"assistant","content":[{"type":"output_text","text":"b"}]},
      {"role":"user","content":[{"type":"input_text","text":"c"}]}]})");
  EXPECT_EQ(text_at(added, "object"), "list");
  EXPECT_EQ(at(added, "data").as_array()->size(), 3u);
  EXPECT_EQ(text_at(added, "first_id"), text_at(added, "data.0.id"));
  EXPECT_THAT(texts(items), ElementsAre("c", "b", "a"));
  EXPECT_THAT(texts(items + "?order=asc&limit=2"), ElementsAre("a", "b"));
  const Json page = get(items + "?order=asc&limit=2&include[]=message.output_text.logprobs");
  EXPECT_EQ(at(page, "has_more"), Json(true));
  const Json rest = get(items + "?order=asc&limit=2&after=" + text_at(page, "last_id"));
  EXPECT_EQ(text_at(rest, "data.0.content.0.text"), "c");
  EXPECT_EQ(at(rest, "has_more"), Json(false));
  const Json empty = get(items + "?order=asc&after=" + text_at(rest, "last_id"));
  EXPECT_TRUE(at(empty, "data").as_array()->empty());
  EXPECT_EQ(get(items + "/" + text_at(added, "data.1.id")), at(added, "data.1"));
  for (const char* wrong : {"?limit=0", "?limit=101", "?limit=x", "?limit=99999999999999999999",
                            "?order=up", "?after=msg_none"}) {
    get(items + wrong, 400);
  }
  get(items + "/msg_none", 404);
}

TEST_F(ConversationsTest, MetadataIsReplacedAndChecked) {
  const std::string path = "/v1/conversations/" + new_conversation();
  EXPECT_EQ(at(get(path), "metadata"), Json(Json::Object{}));
  EXPECT_EQ(text_at(post(path, R"({"metadata":{"a":"b"}})"), "metadata.a"), "b");
  EXPECT_EQ(text_at(get(path), "metadata.a"), "b");
  post(path, "{}", 400);
  post(path, R"({"metadata":{"a":["b"]}})", 400);
  post(path, R"({"metadata":{"a":")" + std::string(513, 'x') + "\"}}", 400);
  post("/v1/conversations", R"({"items":[{"role":"nobody","content":"x"}]})", 400);
  post("/v1/conversations", R"({"items":[{"role":"user","content":[{"type":"input_image"}]}]})",
       400);
  post(path + "/items", R"({"items":[]})", 400);
}

TEST_F(ConversationsTest, NothingIsLostWhenTheServerStartsAnew) {
  const std::string id = new_conversation(R"({"items":[{"role":"user","content":"I am Ada."}]})");
  const Json first = ask("Who?", R"("conversation":")" + id + "\"");
  start();
  EXPECT_EQ(get("/v1/responses/" + text_at(first, "id")), first);
  EXPECT_THAT(texts("/v1/conversations/" + id + "/items?order=asc"),
              ElementsAre("I am Ada.", "Who?", output_text(first)));
  ask("On", previous(first));
}

// --- deletion ----------------------------------------------------------------------------------

TEST_F(ConversationsTest, WhatIsDeletedIsWipedFromTheFile) {
  const std::string id =
      new_conversation(R"({"items":[{"role":"user","content":"xylophone one"}]})");
  const std::string items = "/v1/conversations/" + id + "/items";
  const Json kept = post(items, R"({"items":[{"role":"user","content":"zither"}]})");
  const std::string first = text_at(get(items + "?order=asc"), "data.0.id");
  EXPECT_EQ(text_at(call("DELETE", items + "/" + first), "id"), id);
  call("DELETE", items + "/" + first, "", 404);
  get(items + "/" + first, 404);
  EXPECT_THAT(texts(items), ElementsAre("zither"));
  ask("On", R"("conversation":")" + id + "\"");

  const Json response = ask("xylophone two");
  const Json gone = call("DELETE", "/v1/responses/" + text_at(response, "id"));
  EXPECT_EQ(at(gone, "deleted"), Json(true));
  get("/v1/responses/" + text_at(response, "id"), 404);
  call("DELETE", "/v1/responses/" + text_at(response, "id"), "", 404);

  const Json deleted = call("DELETE", "/v1/conversations/" + id);
  EXPECT_EQ(text_at(deleted, "object"), "conversation.deleted");
  get("/v1/conversations/" + id, 404);
  get(items, 404);
  ask("On", R"("conversation":")" + id + "\"", 404);
  const std::string bytes = context::content_of(path_) + context::content_of(path_ + "-wal");
  EXPECT_EQ(bytes.find("xylophone"), std::string::npos);
  EXPECT_EQ(bytes.find("zither"), std::string::npos);
}

TEST_F(ConversationsTest, ADeletedResponseLeavesWhatGoesOnWithIt) {
  const Json first = ask("Hello there");
  const Json second = ask("And now?", previous(first));
  const Json before = ask("On", previous(second) + R"(,"store":false)");
  call("DELETE", "/v1/responses/" + text_at(first, "id"));
  EXPECT_EQ(output_text(ask("On", previous(second) + R"(,"store":false)")), output_text(before));
  ask("On", previous(first), 404);
}

// --- owners ------------------------------------------------------------------------------------

TEST_F(ConversationsTest, AnotherKeySeesNothingAndLearnsNothing) {
  start({.keys = {"ada", "bob"}});
  const Json mine = raw("POST", "/v1/responses", asking("secret"), "ada").json();
  const Json conversation =
      raw("POST", "/v1/conversations", R"({"items":[{"role":"user","content":"secret"}]})", "ada")
          .json();
  const std::string id = text_at(conversation, "id");
  const Json items = raw("GET", "/v1/conversations/" + id + "/items", "", "ada").json();
  const std::string item = text_at(items, "data.0.id");
  const std::string response = text_at(mine, "id");
  const auto with = [](std::string text, const std::string& from, const std::string& to) {
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + 1)) {
      text.replace(at, from.size(), to);
    }
    return text;
  };
  const std::string nobodys = "conv_0000";
  const std::string none = "resp_0000";
  const std::vector<std::array<std::string, 3>> calls = {
      {"GET", "/v1/responses/" + response, ""},
      {"DELETE", "/v1/responses/" + response, ""},
      {"GET", "/v1/responses/" + response + "/input_items", ""},
      {"POST", "/v1/responses", asking("x", previous(mine))},
      {"POST", "/v1/responses", asking("x", R"("conversation":")" + id + "\"")},
      {"GET", "/v1/conversations/" + id, ""},
      {"POST", "/v1/conversations/" + id, R"({"metadata":{}})"},
      {"DELETE", "/v1/conversations/" + id, ""},
      {"GET", "/v1/conversations/" + id + "/items", ""},
      {"POST", "/v1/conversations/" + id + "/items",
       R"({"items":[{"role":"user","content":"x"}]})"},
      {"GET", "/v1/conversations/" + id + "/items/" + item, ""},
      {"DELETE", "/v1/conversations/" + id + "/items/" + item, ""}};
  for (const auto& [method, path, body] : calls) {
    const RawResponse theirs = raw(method, path, body, "bob");
    EXPECT_EQ(theirs.status, 404) << method << " " << path;
    const auto unknown = [&](const std::string& text) {
      return with(with(text, id, nobodys), response, none);
    };
    const RawResponse nothing = raw(method, unknown(path), unknown(body), "bob");
    EXPECT_EQ(nothing.status, 404) << method << " " << path;
    EXPECT_EQ(unknown(theirs.body), nothing.body);
  }
  // The same key, in another process, is the same owner.
  start({.keys = {"bob", "ada"}});
  EXPECT_EQ(raw("GET", "/v1/responses/" + response, "", "ada").status, 200);
  EXPECT_EQ(raw("GET", "/v1/conversations/" + id, "", "bob").status, 404);
}

// --- when the store fails ----------------------------------------------------------------------

TEST_F(ConversationsTest, ALockedStoreIsOneSentenceAndHarmsNobodyElse) {
  const Json first = ask("Hello there");
  const auto other = another_program();
  {
    const auto lock = context::Transaction::begin(*other).value();
    const RawResponse refused = raw("POST", "/v1/responses", asking("On", previous(first)));
    EXPECT_EQ(refused.status, 500);
    EXPECT_THAT(refused.body, HasSubstr("locked"));
    EXPECT_EQ(refused.body.find(folder_.path()), std::string::npos) << refused.body;
    const std::vector<std::string> events =
        raw("POST", "/v1/responses", asking("On", R"("stream":true)")).events();
    EXPECT_EQ(text_at(json(events.back()), "type"), "response.failed");
    EXPECT_THAT(events.back(), HasSubstr("locked"));
    ask("On", R"("store":false)");
    post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"Hi"}],"max_tokens":4})");
    get("/v1/responses/" + text_at(first, "id"));  // readers need no lock
  }
  ask("On", previous(first));
}

TEST_F(ConversationsTest, ADamagedStoreIsOneSentenceAndHarmsNobodyElse) {
  const Json first = ask("Hello there");
  start();  // its log is in the file now
  const std::string whole = context::content_of(path_);
  const auto other = another_program();
  context::write_file(path_, whole.substr(0, 100) + std::string(whole.size() - 100, '\x5a'));
  // A commit makes the server look at the file again.
  other->execute("PRAGMA user_version=1").value();
  const RawResponse failed = raw("GET", "/v1/responses/" + text_at(first, "id"));
  EXPECT_EQ(failed.status, 500) << failed.body;
  EXPECT_THAT(failed.body, HasSubstr("damaged"));
  EXPECT_EQ(raw("POST", "/v1/responses", asking("x")).status, 500);
  ask("On", R"("store":false)");
}

TEST(WithoutAStore, ResponsesAreAnsweredAndNothingIsKept) {
  TinyServer server;
  const Json response = server.post("/v1/responses", asking("Hello")).json();
  EXPECT_EQ(at(response, "store"), Json(false));
  const RawResponse gone = server.get("/v1/responses/" + text_at(response, "id"));
  EXPECT_EQ(gone.status, 404);
  EXPECT_THAT(gone.body, HasSubstr("--no-store"));
  for (const std::string& more : {std::string(R"("store":true)"), previous(response),
                                  std::string(R"("conversation":"conv_1")")}) {
    const RawResponse refused = server.post("/v1/responses", asking("On", more));
    EXPECT_EQ(refused.status, 400);
    EXPECT_THAT(refused.body, HasSubstr("--no-store"));
  }
  EXPECT_EQ(server.post("/v1/conversations", "{}").status, 404);
}

}  // namespace
}  // namespace quire::server
