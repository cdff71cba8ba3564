// The postfix half of ExpressionParser: attributes, subscripts, calls, filters, tests; and the
// small grammars that statements borrow from expressions.
#include <fmt/format.h>

#include <algorithm>

#include "context/jinja/expression_parser.h"

namespace quire::context::jinja {
namespace {

void deepen_by_arguments(Expr& parent, const CallArguments& arguments) {
  for (const ExprPtr& argument : arguments.positional) deepen(parent, argument);
  for (const auto& [name, argument] : arguments.keyword) deepen(parent, argument);
  deepen(parent, arguments.star);
  deepen(parent, arguments.double_star);
}

}  // namespace

Result<ExprPtr> ExpressionParser::parse_postfix(ExprPtr node) {
  while (true) {
    const Token& token = in_.current();
    if (token.is_operator(".")) {
      QUIRE_TRY(node, parse_attribute(std::move(node)));
    } else if (token.is_operator("[")) {
      QUIRE_TRY(node, parse_subscript(std::move(node)));
    } else if (token.is_operator("(")) {
      QUIRE_TRY(node, parse_call(std::move(node)));
    } else {
      return node;
    }
    QUIRE_TRY(node, grown(std::move(node)));
  }
}

Result<ExprPtr> ExpressionParser::parse_filters(ExprPtr node) {
  while (true) {
    const Token& token = in_.current();
    if (token.is_operator("|")) {
      in_.next();
      QUIRE_TRY(node, parse_filter(std::move(node)));
    } else if (token.is_name("is")) {
      QUIRE_TRY(node, parse_test(std::move(node)));
    } else if (token.is_operator("(")) {
      QUIRE_TRY(node, parse_call(std::move(node)));
    } else {
      return node;
    }
    QUIRE_TRY(node, grown(std::move(node)));
  }
}

Result<ExprPtr> ExpressionParser::parse_attribute(ExprPtr object) {
  const int32_t line = in_.next().line;
  const Token name = in_.next();
  if (name.kind == TokenKind::kName) {
    auto node = std::make_unique<AttributeExpr>(line);
    node->name = name.text;
    deepen(*node, object);
    node->object = std::move(object);
    return ExprPtr(std::move(node));
  }
  if (name.kind != TokenKind::kInteger || name.text.size() > 9) {
    return syntax_error(name.line, "expected a name or a number after '.'");
  }
  auto index = std::make_unique<LiteralExpr>(line);
  index->value = Value(static_cast<int64_t>(std::stoi(name.text)));
  auto node = std::make_unique<ItemExpr>(line);
  deepen(*node, object);
  node->object = std::move(object);
  node->index = std::move(index);
  return ExprPtr(std::move(node));
}

Result<ExprPtr> ExpressionParser::parse_subscript(ExprPtr object) {
  const int32_t line = in_.next().line;
  if (in_.current().is_operator(":")) return parse_slice(std::move(object), nullptr, line);
  QUIRE_TRY(ExprPtr index, parse_expression());
  if (in_.current().is_operator(":")) return parse_slice(std::move(object), std::move(index), line);
  if (in_.current().is_operator(",")) return in_.fail("a subscript takes one index");
  QUIRE_TRY_VOID(in_.expect_operator("]"));
  auto node = std::make_unique<ItemExpr>(line);
  deepen(*node, object);
  deepen(*node, index);
  node->object = std::move(object);
  node->index = std::move(index);
  return ExprPtr(std::move(node));
}

Result<ExprPtr> ExpressionParser::parse_slice(ExprPtr object, ExprPtr start, int32_t line) {
  auto node = std::make_unique<SliceExpr>(line);
  in_.next();
  const auto at_part_end = [this] {
    return in_.current().is_operator(":") || in_.current().is_operator("]");
  };
  if (!at_part_end()) {
    QUIRE_TRY(node->stop, parse_expression());
  }
  if (in_.skip_operator(":") && !at_part_end()) {
    QUIRE_TRY(node->step, parse_expression());
  }
  QUIRE_TRY_VOID(in_.expect_operator("]"));
  node->object = std::move(object);
  node->start = std::move(start);
  for (const ExprPtr* part : {&node->object, &node->start, &node->stop, &node->step}) {
    deepen(*node, *part);
  }
  return ExprPtr(std::move(node));
}

Result<ExprPtr> ExpressionParser::parse_call(ExprPtr callee) {
  auto node = std::make_unique<CallExpr>(in_.current().line);
  QUIRE_TRY(node->arguments, parse_arguments());
  node->callee = std::move(callee);
  deepen(*node, node->callee);
  deepen_by_arguments(*node, node->arguments);
  return ExprPtr(std::move(node));
}

Result<CallArguments> ExpressionParser::parse_arguments() {
  QUIRE_TRY_VOID(in_.expect_operator("("));
  CallArguments arguments;
  bool first = true;
  while (!in_.current().is_operator(")")) {
    if (!first) {
      QUIRE_TRY_VOID(in_.expect_operator(","));
      if (in_.current().is_operator(")")) break;
    }
    first = false;
    QUIRE_TRY_VOID(parse_argument(arguments));
  }
  in_.next();
  return arguments;
}

Result<void> ExpressionParser::parse_argument(CallArguments& arguments) {
  const Error misplaced = in_.fail("the arguments of this call are in the wrong order");
  if (in_.skip_operator("*")) {
    if (arguments.star || arguments.double_star) return misplaced;
    QUIRE_TRY(arguments.star, parse_expression());
  } else if (in_.skip_operator("**")) {
    if (arguments.double_star) return misplaced;
    QUIRE_TRY(arguments.double_star, parse_expression());
  } else if (in_.current().kind == TokenKind::kName && in_.look().is_operator("=")) {
    if (arguments.double_star) return misplaced;
    std::string name = in_.next().text;
    in_.next();
    QUIRE_TRY(ExprPtr value, parse_expression());
    arguments.keyword.emplace_back(std::move(name), std::move(value));
  } else {
    if (arguments.star || arguments.double_star || !arguments.keyword.empty()) return misplaced;
    QUIRE_TRY(ExprPtr value, parse_expression());
    arguments.positional.push_back(std::move(value));
  }
  return {};
}

Result<std::string> ExpressionParser::parse_dotted_name() {
  QUIRE_TRY(Token name, in_.expect(TokenKind::kName, "a name"));
  while (in_.skip_operator(".")) {
    QUIRE_TRY(const Token part, in_.expect(TokenKind::kName, "a name"));
    name.text += "." + part.text;
  }
  return std::move(name.text);
}

Result<ExprPtr> ExpressionParser::parse_filter(ExprPtr input) {
  auto node = std::make_unique<FilterExpr>(in_.current().line);
  QUIRE_TRY(node->name, parse_dotted_name());
  if (in_.current().is_operator("(")) {
    QUIRE_TRY(node->arguments, parse_arguments());
  }
  node->input = std::move(input);
  deepen(*node, node->input);
  deepen_by_arguments(*node, node->arguments);
  return ExprPtr(std::move(node));
}

Result<ExprPtr> ExpressionParser::parse_filter_names() {
  QUIRE_TRY(ExprPtr node, parse_filter(nullptr));
  while (in_.skip_operator("|")) {
    QUIRE_TRY(node, parse_filter(std::move(node)));
    QUIRE_TRY(node, grown(std::move(node)));
  }
  return node;
}

Result<ExprPtr> ExpressionParser::parse_filters_of_block() {
  if (!in_.skip_operator("|")) return ExprPtr();
  return parse_filter_names();
}

Result<ExprPtr> ExpressionParser::parse_test(ExprPtr input) {
  auto node = std::make_unique<TestExpr>(in_.next().line);
  const bool negated = in_.skip_name("not");
  QUIRE_TRY(node->name, parse_dotted_name());
  const Token& token = in_.current();
  const bool keyword = token.is_name("else") || token.is_name("or") || token.is_name("and");
  const bool starts_value = token.kind == TokenKind::kString || token.kind == TokenKind::kInteger ||
                            token.kind == TokenKind::kFloat || token.kind == TokenKind::kName ||
                            token.is_operator("[") || token.is_operator("{");
  if (token.is_operator("(")) {
    QUIRE_TRY(node->arguments, parse_arguments());
  } else if (token.is_name("is")) {
    return in_.fail("tests cannot be chained with 'is'");
  } else if (starts_value && !keyword) {
    QUIRE_TRY(ExprPtr argument, parse_primary());
    QUIRE_TRY(argument, parse_postfix(std::move(argument)));
    node->arguments.positional.push_back(std::move(argument));
  }
  node->input = std::move(input);
  deepen(*node, node->input);
  deepen_by_arguments(*node, node->arguments);
  if (!negated) return ExprPtr(std::move(node));
  auto inverted = std::make_unique<UnaryExpr>(node->line);
  inverted->operand = std::move(node);
  deepen(*inverted, inverted->operand);
  return ExprPtr(std::move(inverted));
}

Result<Target> ExpressionParser::parse_single_target() {
  if (in_.skip_operator("(")) {
    QUIRE_TRY(Target inner, parse_target());
    QUIRE_TRY_VOID(in_.expect_operator(")"));
    return inner;
  }
  QUIRE_TRY(const Token name, in_.expect(TokenKind::kName, "a name to assign to"));
  for (const std::string_view constant : {"true", "false", "none", "True", "False", "None"}) {
    if (name.text == constant) {
      return syntax_error(name.line, fmt::format("cannot assign to '{}'", constant));
    }
  }
  Target target;
  target.symbol = in_.intern(name.text);
  return target;
}

Result<Target> ExpressionParser::parse_target() {
  const Nesting nesting(in_);
  if (nesting.too_deep()) return in_.fail("the names to assign to nest too deeply");
  QUIRE_TRY(Target first, parse_single_target());
  if (!in_.current().is_operator(",")) return first;
  Target tuple;
  tuple.is_tuple = true;
  tuple.elements.push_back(std::move(first));
  while (in_.skip_operator(",")) {
    const Token& token = in_.current();
    if (token.kind != TokenKind::kName && !token.is_operator("(")) break;
    if (token.is_name("in")) break;
    QUIRE_TRY(Target element, parse_single_target());
    tuple.elements.push_back(std::move(element));
  }
  return tuple;
}

Result<void> ExpressionParser::parse_signature(MacroDefinition& macro) {
  QUIRE_TRY_VOID(in_.expect_operator("("));
  while (!in_.current().is_operator(")")) {
    if (!macro.parameters.empty()) QUIRE_TRY_VOID(in_.expect_operator(","));
    QUIRE_TRY(const Token name, in_.expect(TokenKind::kName, "a parameter's name"));
    macro.parameters.emplace_back(in_.intern(name.text), name.text);
    if (in_.skip_operator("=")) {
      QUIRE_TRY(ExprPtr value, parse_expression());
      macro.defaults.push_back(std::move(value));
    } else if (!macro.defaults.empty()) {
      return in_.fail("a parameter without a default follows one that has a default");
    }
  }
  in_.next();
  return {};
}

}  // namespace quire::context::jinja
