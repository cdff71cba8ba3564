// tokenizer_json_fuzz.cc: any text as tokenizer.json ends in one sentence or in a tokenizer that
// keeps its promises. The input may go on, after a zero byte, with a text to encode.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "context/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire::context;
  using quire::TokenId;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::string_view json = input.substr(0, input.find('\0'));
  const std::string_view rest = input.substr(json.size());
  const auto tokenizer = Tokenizer::from_json(json);
  if (!tokenizer.ok()) {
    const std::string& message = tokenizer.error().message;
    QUIRE_CHECK(!message.empty() && message.find('\n') == message.npos, "an error is one sentence");
    return 0;
  }
  for (const std::string_view text : {rest, std::string_view("Hello, w\xC3\xB6rld <s>\n 42\xFF")}) {
    const ByteRange half{0, text.size() / 2};
    const auto encoding = tokenizer->encode_with_ranges(text, std::span(&half, 1));
    size_t end = 0;
    for (size_t i = 0; i < encoding.ids.size(); ++i) {
      QUIRE_CHECK(tokenizer->is_valid(encoding.ids[i]), "ids are of the vocabulary");
      QUIRE_CHECK_EQ(encoding.ranges[i].begin, end);
      QUIRE_CHECK_LE(end, encoding.ranges[i].end);
      end = encoding.ranges[i].end;
    }
    QUIRE_CHECK(encoding.ids.empty() || end == text.size(), "ranges cover the text");
    (void)tokenizer->decode(encoding.ids, SpecialText::kShow);
    for (const TokenId id : tokenizer->encode(text, Special::kPlain)) {
      QUIRE_CHECK(!tokenizer->is_control(id) || tokenizer->kind(id) == TokenKind::kUnknown,
                  "plain text holds no control token");
    }
  }
  return 0;
}
