// tokenizer_peer.cc: answers what ids a tokenizer gives, line by line, for compare_tokenizers.py.
//
// Usage: quire_tokenizer_peer MODEL.gguf | FOLDER. Each line of stdin is {"text": ..., "plain":
// bool}; each line of stdout is {"ids": [...], "decoded": "..."}.
#include <cstdio>
#include <iostream>
#include <string>

#include "base/file_system.h"
#include "base/utf8.h"
#include "context/tokenizer.h"
#include "formats/gguf.h"
#include "formats/json.h"

namespace {

using namespace quire;
using formats::Json;

constexpr uint64_t kMaxFileBytes = uint64_t{1} << 28;

Result<context::Tokenizer> load(const std::string& path) {
  FileSystem& files = real_file_system();
  if (files.is_file(path)) {
    QUIRE_TRY(const auto gguf,
              formats::GgufFile::open(files, path, formats::OpenMode::kMetadataOnly));
    return context::Tokenizer::from_gguf(gguf.metadata());
  }
  QUIRE_TRY(const std::string tokenizer, files.read(path + "/tokenizer.json", kMaxFileBytes));
  std::string config;
  if (files.is_file(path + "/tokenizer_config.json")) {
    QUIRE_TRY(config, files.read(path + "/tokenizer_config.json", kMaxFileBytes));
  }
  return context::Tokenizer::from_json(tokenizer, config);
}

std::string answer(const context::Tokenizer& tokenizer, const Json& request) {
  const Json* text = request.find("text");
  const Json* plain = request.find("plain");
  if (text == nullptr || !text->is_string()) return R"({"error": "no text"})";
  const bool is_plain = plain != nullptr && plain->as_bool().value_or(false);
  const auto ids = tokenizer.encode(*text->as_string(),
                                    is_plain ? context::Special::kPlain : context::Special::kParse);
  Json reply;
  Json list(Json::Array{});
  for (const TokenId id : ids) list.push_back(int64_t{id.value});
  reply.set("ids", std::move(list));
  reply.set("decoded", utf8_sanitized(tokenizer.decode(ids, context::SpecialText::kShow)));
  return reply.dump();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s MODEL.gguf | FOLDER\n", argv[0]);
    return 2;
  }
  const auto tokenizer = load(argv[1]);
  if (!tokenizer) {
    std::fprintf(stderr, "%s\n", tokenizer.error().message.c_str());
    return 3;
  }
  for (std::string line; std::getline(std::cin, line);) {
    const auto request = Json::parse(line, "the request");
    if (!request) {
      std::fprintf(stderr, "%s\n", request.error().message.c_str());
      return 2;
    }
    std::cout << answer(*tokenizer, *request) << std::endl;
  }
}
