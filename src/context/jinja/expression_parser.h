// expression_parser.h: the part of the parser that reads expressions.
//
// Works on a token stream shared with the statement parser (parser.cc). Precedence, weakest first:
// if-else, or, and, not, comparison, + -, ~, * / // %, **, sign, postfix and filters.
// Single-threaded.
#pragma once
#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "context/jinja/ast.h"
#include "context/jinja/budget.h"
#include "context/jinja/lexer.h"

namespace quire::context::jinja {

/// Tokens with a cursor, the symbol table, and how deep the parser has recursed.
class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& look() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  /// The current token; the cursor moves on.
  Token next();
  bool skip_name(std::string_view name);
  bool skip_operator(std::string_view op);
  Result<Token> expect(TokenKind kind, std::string_view what);
  Result<void> expect_operator(std::string_view op);
  /// An error at the current line.
  Error fail(std::string_view why) const { return syntax_error(current().line, why); }
  /// "expected X, got Y".
  Error unexpected(std::string_view expected) const;

  Symbol intern(const std::string& name);
  std::vector<std::string> take_symbols() { return std::move(symbols_); }
  /// Whether a name has been read since a mark was set.
  bool was_read_since(size_t mark, std::string_view name) const;
  size_t mark() const { return reads_.size(); }

  int32_t depth = 0;

 private:
  friend class ExpressionParser;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  std::vector<std::string> symbols_;
  std::unordered_map<std::string, Symbol> symbol_by_name_;
  std::vector<Symbol> reads_;
};

/// Counts one level of recursion while it lives.
class Nesting {
 public:
  explicit Nesting(TokenStream& stream) : stream_(stream) { ++stream_.depth; }
  ~Nesting() { --stream_.depth; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;
  bool too_deep() const { return stream_.depth > kMaxSyntaxDepth; }

 private:
  TokenStream& stream_;
};

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& stream) : in_(stream) {}

  /// One expression, with "a if b else c".
  Result<ExprPtr> parse_expression();
  /// One expression, or a tuple when commas follow. Conditionals are read unless told otherwise.
  Result<ExprPtr> parse_tuple();
  Result<ExprPtr> parse_tuple_without_conditional();
  /// Names to bind: a, or a, b, (c, d). Stops before `in` and `=`.
  Result<Target> parse_target();
  /// "| f | g(1)" behind something that is not an expression; empty if there is none.
  Result<ExprPtr> parse_filters_of_block();
  /// "f | g(1)", as {% filter %} has it.
  Result<ExprPtr> parse_filter_names();
  /// ( parameters ) of a macro.
  Result<void> parse_signature(MacroDefinition& macro);

 private:
  enum class Conditionals { kRead, kLeave };
  Result<ExprPtr> parse_tuple_items(Conditionals conditionals, bool in_parentheses);
  Result<ExprPtr> parse_binary(int min_level);
  Result<ExprPtr> parse_operator(ExprPtr left, int level);
  Result<ExprPtr> parse_arithmetic(ExprPtr left, int level);
  Result<ExprPtr> parse_logical(ExprPtr left, int level);
  Result<ExprPtr> parse_comparison(ExprPtr left);
  Result<ExprPtr> parse_concat(ExprPtr left);
  Result<ExprPtr> parse_unary(bool with_filters);
  Result<ExprPtr> parse_sign();
  Result<ExprPtr> parse_primary();
  Result<ExprPtr> parse_literal();
  Result<ExprPtr> parse_list();
  Result<ExprPtr> parse_dict();
  Result<ExprPtr> parse_postfix(ExprPtr node);
  Result<ExprPtr> parse_filters(ExprPtr node);
  Result<ExprPtr> parse_filter(ExprPtr input);
  Result<ExprPtr> parse_test(ExprPtr input);
  Result<ExprPtr> parse_attribute(ExprPtr object);
  Result<ExprPtr> parse_subscript(ExprPtr object);
  Result<ExprPtr> parse_slice(ExprPtr object, ExprPtr start, int32_t line);
  Result<ExprPtr> parse_call(ExprPtr callee);
  Result<CallArguments> parse_arguments();
  Result<void> parse_argument(CallArguments& arguments);
  Result<Target> parse_single_target();
  Result<std::string> parse_dotted_name();
  int current_level() const;
  /// Fails if the tree has grown too deep.
  Result<ExprPtr> grown(ExprPtr node) const;

  TokenStream& in_;
};

}  // namespace quire::context::jinja
