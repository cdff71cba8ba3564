#include "context/jinja/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "context/jinja/expression_parser.h"

namespace quire::context::jinja {
namespace {

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : in_(std::move(tokens)), expressions_(in_) {}

  Result<std::unique_ptr<const Syntax>> run() {
    auto syntax = std::make_unique<Syntax>();
    QUIRE_TRY(syntax->body, parse_body({}));
    syntax->symbols = in_.take_symbols();
    return std::unique_ptr<const Syntax>(std::move(syntax));
  }

 private:
  using Tags = std::initializer_list<std::string_view>;

  /// Statements up to one of the closing tags, whose name stays the current token; up to the end of
  /// the template when there are none.
  Result<Body> parse_body(Tags closing) {
    const Nesting nesting(in_);
    if (nesting.too_deep()) return in_.fail("the statements nest too deeply");
    Body body;
    while (in_.current().kind != TokenKind::kEnd) {
      if (in_.current().kind != TokenKind::kBlockBegin) {
        QUIRE_TRY(StatementPtr output, parse_output());
        body.push_back(std::move(output));
        continue;
      }
      in_.next();
      const Token& name = in_.current();
      const bool closes = name.kind == TokenKind::kName &&
                          std::find(closing.begin(), closing.end(), name.text) != closing.end();
      if (closes) return body;
      QUIRE_TRY(StatementPtr statement, parse_statement());
      body.push_back(std::move(statement));
      QUIRE_TRY_VOID(expect_block_end());
    }
    if (closing.size() == 0) return body;
    return in_.fail(fmt::format("the template ends before {{% {} %}}", *(closing.end() - 1)));
  }

  /// "%}" and a body up to a closing tag; the body's last closing tag is consumed by the caller.
  Result<Body> parse_block(Tags closing) {
    in_.skip_operator(":");
    QUIRE_TRY_VOID(expect_block_end());
    return parse_body(closing);
  }

  Result<Body> parse_whole_block(std::string_view closing) {
    QUIRE_TRY(Body body, parse_block({closing}));
    in_.next();
    return body;
  }

  Result<void> expect_block_end() {
    if (in_.current().kind != TokenKind::kBlockEnd) return in_.unexpected("'%}'");
    in_.next();
    return {};
  }

  /// Text and {{ }} up to the next tag.
  Result<StatementPtr> parse_output() {
    auto output = std::make_unique<OutputStatement>(in_.current().line);
    while (true) {
      const Token& token = in_.current();
      if (token.kind == TokenKind::kData) {
        auto literal = std::make_unique<LiteralExpr>(token.line);
        literal->value = Value::string(in_.next().text);
        output->parts.push_back(std::move(literal));
      } else if (token.kind == TokenKind::kVariableBegin) {
        in_.next();
        QUIRE_TRY(ExprPtr expression, expressions_.parse_tuple());
        output->parts.push_back(std::move(expression));
        if (in_.current().kind != TokenKind::kVariableEnd) return in_.unexpected("'}}'");
        in_.next();
      } else {
        return StatementPtr(std::move(output));
      }
    }
  }

  Result<StatementPtr> parse_statement() {
    QUIRE_TRY(const Token tag, in_.expect(TokenKind::kName, "the name of a tag"));
    const int32_t line = tag.line;
    if (tag.text == "if") return parse_if(line);
    if (tag.text == "set") return parse_set(line);
    if (tag.text == "for") return parse_for(line);
    if (tag.text == "macro") return parse_macro(line);
    if (tag.text == "call") return parse_call_block(line);
    if (tag.text == "filter") return parse_filter_block(line);
    if (tag.text == "with") return parse_with(line);
    if (tag.text == "print") return parse_print(line);
    if (tag.text == "generation") return parse_generation(line);
    if (tag.text == "break" || tag.text == "continue") return parse_jump(tag);
    if (tag.text == "include" || tag.text == "import" || tag.text == "from" ||
        tag.text == "extends" || tag.text == "block" || tag.text == "autoescape") {
      return syntax_error(line,
                          fmt::format("{{% {} %}} is not supported in chat templates", tag.text));
    }
    return syntax_error(line, fmt::format("unknown or misplaced tag '{}'", tag.text));
  }

  Result<StatementPtr> parse_if(int32_t line) {
    auto statement = std::make_unique<IfStatement>(line);
    while (true) {
      statement->branches.emplace_back();
      QUIRE_TRY(statement->branches.back().first, expressions_.parse_tuple_without_conditional());
      QUIRE_TRY(statement->branches.back().second, parse_block({"elif", "else", "endif"}));
      const Token tag = in_.next();
      if (tag.text == "elif") continue;
      if (tag.text == "else") {
        QUIRE_TRY(statement->otherwise, parse_whole_block("endif"));
      }
      return StatementPtr(std::move(statement));
    }
  }

  Result<StatementPtr> parse_for(int32_t line) {
    auto statement = std::make_unique<ForStatement>(line);
    QUIRE_TRY(statement->target, expressions_.parse_target());
    if (!in_.skip_name("in")) return in_.unexpected("'in'");
    QUIRE_TRY(statement->iterable, expressions_.parse_tuple_without_conditional());
    if (in_.skip_name("if")) {
      QUIRE_TRY(statement->condition, expressions_.parse_expression());
    }
    statement->recursive = in_.skip_name("recursive");
    ++loop_depth_;
    QUIRE_TRY(statement->body, parse_block({"else", "endfor"}));
    --loop_depth_;
    if (in_.next().text == "else") {
      QUIRE_TRY(statement->otherwise, parse_whole_block("endfor"));
    }
    return StatementPtr(std::move(statement));
  }

  Result<StatementPtr> parse_jump(const Token& tag) {
    if (loop_depth_ == 0) {
      return syntax_error(tag.line, fmt::format("{{% {} %}} stands outside of a loop", tag.text));
    }
    return StatementPtr(std::make_unique<JumpStatement>(
        tag.text == "break" ? StatementKind::kBreak : StatementKind::kContinue, tag.line));
  }

  Result<StatementPtr> parse_set(int32_t line) {
    QUIRE_TRY(Target target, parse_set_target());
    if (in_.skip_operator("=")) {
      auto statement = std::make_unique<SetStatement>(line);
      statement->target = std::move(target);
      QUIRE_TRY(statement->value, expressions_.parse_tuple());
      return StatementPtr(std::move(statement));
    }
    auto statement = std::make_unique<SetBlockStatement>(line);
    statement->target = std::move(target);
    QUIRE_TRY(statement->filter, expressions_.parse_filters_of_block());
    QUIRE_TRY(statement->body, parse_whole_block("endset"));
    return StatementPtr(std::move(statement));
  }

  Result<Target> parse_set_target() {
    if (!in_.look().is_operator(".")) return expressions_.parse_target();
    QUIRE_TRY(const Token object, in_.expect(TokenKind::kName, "a name to assign to"));
    in_.next();
    QUIRE_TRY(const Token attribute, in_.expect(TokenKind::kName, "an attribute's name"));
    Target target;
    target.symbol = in_.intern(object.text);
    target.attribute = attribute.text;
    return target;
  }

  /// A macro's body sees no loop around it.
  Result<void> parse_macro_body(MacroDefinition& macro, std::string_view closing) {
    const int outer_loops = std::exchange(loop_depth_, 0);
    const size_t mark = in_.mark();
    QUIRE_TRY(macro.body, parse_whole_block(closing));
    macro.uses_caller = in_.was_read_since(mark, "caller");
    macro.uses_kwargs = in_.was_read_since(mark, "kwargs");
    macro.uses_varargs = in_.was_read_since(mark, "varargs");
    loop_depth_ = outer_loops;
    return {};
  }

  Result<StatementPtr> parse_macro(int32_t line) {
    auto statement = std::make_unique<MacroStatement>(line);
    QUIRE_TRY(const Token name, in_.expect(TokenKind::kName, "the macro's name"));
    statement->symbol = in_.intern(name.text);
    statement->macro.name = name.text;
    QUIRE_TRY_VOID(expressions_.parse_signature(statement->macro));
    QUIRE_TRY_VOID(parse_macro_body(statement->macro, "endmacro"));
    return StatementPtr(std::move(statement));
  }

  Result<StatementPtr> parse_call_block(int32_t line) {
    auto statement = std::make_unique<CallBlockStatement>(line);
    statement->caller.name = "caller";
    if (in_.current().is_operator("(")) {
      QUIRE_TRY_VOID(expressions_.parse_signature(statement->caller));
    }
    QUIRE_TRY(ExprPtr call, expressions_.parse_expression());
    if (call->kind != ExprKind::kCall) return syntax_error(line, "{% call %} needs a call");
    statement->call.reset(static_cast<CallExpr*>(call.release()));
    QUIRE_TRY_VOID(parse_macro_body(statement->caller, "endcall"));
    return StatementPtr(std::move(statement));
  }

  Result<StatementPtr> parse_filter_block(int32_t line) {
    auto statement = std::make_unique<FilterBlockStatement>(line);
    QUIRE_TRY(statement->filter, expressions_.parse_filter_names());
    QUIRE_TRY(statement->body, parse_whole_block("endfilter"));
    return StatementPtr(std::move(statement));
  }

  Result<StatementPtr> parse_with(int32_t line) {
    auto statement = std::make_unique<WithStatement>(line);
    while (in_.current().kind != TokenKind::kBlockEnd) {
      if (!statement->assignments.empty()) QUIRE_TRY_VOID(in_.expect_operator(","));
      statement->assignments.emplace_back();
      QUIRE_TRY(statement->assignments.back().first, expressions_.parse_target());
      QUIRE_TRY_VOID(in_.expect_operator("="));
      QUIRE_TRY(statement->assignments.back().second, expressions_.parse_expression());
    }
    QUIRE_TRY(statement->body, parse_whole_block("endwith"));
    return StatementPtr(std::move(statement));
  }

  Result<StatementPtr> parse_print(int32_t line) {
    auto statement = std::make_unique<OutputStatement>(line);
    while (in_.current().kind != TokenKind::kBlockEnd) {
      if (!statement->parts.empty()) QUIRE_TRY_VOID(in_.expect_operator(","));
      QUIRE_TRY(ExprPtr part, expressions_.parse_expression());
      statement->parts.push_back(std::move(part));
    }
    return StatementPtr(std::move(statement));
  }

  Result<StatementPtr> parse_generation(int32_t line) {
    auto statement = std::make_unique<ScopeStatement>(line);
    QUIRE_TRY(statement->body, parse_whole_block("endgeneration"));
    return StatementPtr(std::move(statement));
  }

  TokenStream in_;
  ExpressionParser expressions_;
  int loop_depth_ = 0;
};

}  // namespace

Result<std::unique_ptr<const Syntax>> parse_syntax(std::string_view source) {
  QUIRE_TRY(std::vector<Token> tokens, tokenize(source));
  return Parser(std::move(tokens)).run();
}

}  // namespace quire::context::jinja
