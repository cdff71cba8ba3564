// Keys: no route but one is open, and what one key's owner computed no other can see.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "context/scratch_folder.h"
#include "server/routes.h"
#include "server/tiny_server.h"

namespace quire::server {
namespace {

using formats::Json;
using testing::HasSubstr;

TEST(ServerKeys, EveryRouteButHealthNeedsOne) {
  const context::ScratchFolder folder;
  TinyServer server({.keys = {"right-key"}, .store = folder.file("store.db")});
  for (const Route& route : routes()) {
    std::string path(route.path);
    for (size_t at = path.find('*'); at != std::string::npos; at = path.find('*')) {
      path.replace(at, path.compare(at, 2, "**") == 0 ? 2 : 1, "tiny");
    }
    const std::string body = route.method == "POST" ? "{}" : "";
    const RawResponse without = server.client().request(route.method, path, body);
    const RawResponse wrong =
        server.client().request(route.method, path, body, "Authorization: Bearer right-kex\r\n");
    const RawResponse with =
        server.client().request(route.method, path, body, "Authorization: Bearer right-key\r\n");
    if (path == "/health") {
      EXPECT_EQ(without.status, 200);
      continue;
    }
    EXPECT_EQ(without.status, 401) << path;
    EXPECT_EQ(wrong.status, 401) << path;
    EXPECT_NE(with.status, 401) << path;
  }
  EXPECT_EQ(server.get("/no/such/route").status, 401);
  const RawResponse refused = server.post("/v1/completions", "{}");
  EXPECT_EQ(text_at(refused.json(), "error.code"), "invalid_api_key");
}

TEST(ServerKeys, GiveEachTenantACacheOfItsOwn) {
  TinyServer server({.keys = {"alice", "bob"}});
  const std::string body =
      R"({"prompt":")" + std::string(200, 'x') + R"(","max_tokens":1,"temperature":0})";
  const auto cached = [&](const std::string& key) {
    const RawResponse reply = server.client().request("POST", "/v1/completions", body,
                                                      "Authorization: Bearer " + key + "\r\n");
    const Json json = reply.json();
    EXPECT_EQ(reply.status, 200) << reply.body;
    // Nothing of another tenant's is mentioned either.
    if (at(json, "reuse.cached_tokens").as_int() == 0) {
      EXPECT_EQ(text_at(json, "reuse.miss.reason"), "cold");
    }
    return at(json, "usage.prompt_tokens_details.cached_tokens").as_int().value_or(-1);
  };
  EXPECT_EQ(cached("alice"), 0);
  EXPECT_GT(cached("alice"), 0);
  EXPECT_EQ(cached("bob"), 0);
}

}  // namespace
}  // namespace quire::server
