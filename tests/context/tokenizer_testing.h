// tokenizer_testing.h: tokenizers for tests: of this repository's files, and small ones in words.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"
#include "context/tokenizer.h"
#include "formats/gguf.h"
#include "formats/json.h"

namespace quire::context {

inline std::optional<std::string> read_file(const std::string& path) {
  FileSystem& files = real_file_system();
  if (!files.is_file(path)) return std::nullopt;
  return files.read(path, uint64_t{1} << 28).value();
}

/// The tokenizer of a folder with tokenizer.json; nothing if there is none.
inline std::optional<Tokenizer> tokenizer_of_folder(const std::string& folder) {
  const auto json = read_file(folder + "/tokenizer.json");
  if (!json) return std::nullopt;
  return Tokenizer::from_json(*json, read_file(folder + "/tokenizer_config.json").value_or(""))
      .value();
}

/// The tokenizers that several repositories share; nothing where they are not checked out.
inline std::optional<Tokenizer> shared_tokenizer(const std::string& name) {
  return tokenizer_of_folder(QUIRE_SOURCE_DIR "/../shared/tokenizers/" + name);
}

inline Tokenizer tokenizer_of_gguf(const std::string& path) {
  const auto file =
      formats::GgufFile::open(real_file_system(), path, formats::OpenMode::kMetadataOnly).value();
  return Tokenizer::from_gguf(file.metadata()).value();
}

inline std::vector<int32_t> numbers(std::span<const TokenId> ids) {
  std::vector<int32_t> out;
  for (const TokenId id : ids) out.push_back(id.value);
  return out;
}

inline std::vector<int32_t> numbers(const formats::Json& array) {
  std::vector<int32_t> out;
  for (const formats::Json& id : *array.as_array())
    out.push_back(static_cast<int32_t>(*id.as_int()));
  return out;
}

inline std::vector<int32_t> encode(const Tokenizer& tokenizer, std::string_view text,
                                   Special special = Special::kParse) {
  return numbers(tokenizer.encode(text, special));
}

/// The spellings of a text's tokens, as pieces.
inline std::vector<std::string> pieces(const Tokenizer& tokenizer, std::span<const TokenId> ids) {
  std::vector<std::string> out;
  for (const TokenId id : ids) out.emplace_back(tokenizer.piece(id));
  return out;
}

inline std::vector<std::string> pieces(const Tokenizer& tokenizer, std::string_view text,
                                       Special special = Special::kParse) {
  return pieces(tokenizer, tokenizer.encode(text, special));
}

/// A tokenizer.json under construction. Its characters are tokens by themselves.
struct SmallTokenizer {
  std::string characters = "abcdefghijklmnopqrstuvwxyz<>|/_'123";
  std::vector<std::string> more_tokens;  // after the characters
  std::vector<std::string> merges;       // "a b"
  std::string added = "";                // objects, comma-separated
  std::string normalizer = "null";
  std::string pre_tokenizer = "null";
  std::string decoder = "null";
  std::string post_processor = "null";
  std::string model_options = "";  // "\"fuse_unk\": true,"
  std::string config = "";

  std::string json() const {
    std::string vocabulary;
    int id = 0;
    const auto add = [&](const std::string& token) {
      vocabulary += (id == 0 ? "" : ",") + formats::Json(token).dump() + ":" + std::to_string(id);
      ++id;
    };
    for (const char c : characters) add(std::string(1, c));
    for (const std::string& token : more_tokens) add(token);
    formats::Json::Array list;
    for (const std::string& merge : merges) list.emplace_back(merge);
    return R"({"added_tokens":[)" + added + R"(],"normalizer":)" + normalizer +
           R"(,"pre_tokenizer":)" + pre_tokenizer + R"(,"post_processor":)" + post_processor +
           R"(,"decoder":)" + decoder + R"(,"model":{"type":"BPE",)" + model_options +
           R"("vocab":{)" + vocabulary + R"(},"merges":)" + formats::Json(list).dump() + "}}";
  }

  Result<Tokenizer> load() const { return Tokenizer::from_json(json(), config); }
  Tokenizer build() const { return load().value(); }
};

/// An entry of SmallTokenizer::added.
inline std::string added_token(int id, const std::string& content, const std::string& options) {
  return R"({"id":)" + std::to_string(id) + R"(,"content":)" + formats::Json(content).dump() +
         (options.empty() ? "" : "," + options) + "}";
}

}  // namespace quire::context
