// lexer.h: template source as tokens, with Jinja's whitespace control already applied.
//
// Follows jinja2 3.1 with trim_blocks and lstrip_blocks on, which is how Hugging Face runs chat
// templates: line ends become \n, one newline at the end of the source goes, "-" and "+" in tags
// are honoured, {% raw %} and comments are resolved. Plain function, callable from any thread.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire::context::jinja {

enum class TokenKind : uint8_t {
  kData,  // text to print as it stands
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,   // text is the unescaped content
  kInteger,  // text is the digits as written, without underscores
  kFloat,
  kOperator,
  kEnd
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  int32_t line = 1;
  std::string text;

  bool is(TokenKind wanted, std::string_view content) const {
    return kind == wanted && text == content;
  }
  bool is_name(std::string_view name) const { return is(TokenKind::kName, name); }
  bool is_operator(std::string_view op) const { return is(TokenKind::kOperator, op); }
};

/// Real templates are below 50 kB.
inline constexpr size_t kMaxTemplateBytes = 1 << 20;

/// The tokens, the last of kind kEnd. An error's message starts with "line N: ".
Result<std::vector<Token>> tokenize(std::string_view source);

/// "line N: why" as an error of the template's text.
Error syntax_error(int32_t line, std::string_view why);

}  // namespace quire::context::jinja
