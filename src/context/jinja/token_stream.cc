#include <fmt/format.h>

#include "context/jinja/expression_parser.h"

namespace quire::context::jinja {
namespace {

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::kData:
      return "text";
    case TokenKind::kVariableBegin:
      return "'{{'";
    case TokenKind::kVariableEnd:
      return "'}}'";
    case TokenKind::kBlockBegin:
      return "'{%'";
    case TokenKind::kBlockEnd:
      return "'%}'";
    case TokenKind::kString:
      return "a string";
    case TokenKind::kEnd:
      return "the end of the template";
    default:
      return fmt::format("'{}'", token.text);
  }
}

}  // namespace

Token TokenStream::next() {
  const Token token = current();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool TokenStream::skip_name(std::string_view name) {
  if (!current().is_name(name)) return false;
  next();
  return true;
}

bool TokenStream::skip_operator(std::string_view op) {
  if (!current().is_operator(op)) return false;
  next();
  return true;
}

Error TokenStream::unexpected(std::string_view expected) const {
  return fail(fmt::format("expected {}, got {}", expected, describe(current())));
}

Result<Token> TokenStream::expect(TokenKind kind, std::string_view what) {
  if (current().kind != kind) return unexpected(what);
  return next();
}

Result<void> TokenStream::expect_operator(std::string_view op) {
  if (skip_operator(op)) return {};
  return unexpected(fmt::format("'{}'", op));
}

Symbol TokenStream::intern(const std::string& name) {
  const auto [found, added] = symbol_by_name_.emplace(name, static_cast<Symbol>(symbols_.size()));
  if (added) symbols_.push_back(name);
  return found->second;
}

bool TokenStream::was_read_since(size_t mark, std::string_view name) const {
  for (size_t i = mark; i < reads_.size(); ++i) {
    if (symbols_[static_cast<size_t>(reads_[i])] == name) return true;
  }
  return false;
}

}  // namespace quire::context::jinja
