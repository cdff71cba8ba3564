#include "context/jinja/expression_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

namespace quire::context::jinja {
namespace {

// Binding strength of binary operators; `not` binds between `and` and comparisons.
enum Level { kOr, kAnd, kNot, kComparison, kSum, kConcat, kProduct, kPower, kNoOperator };

constexpr std::array<std::pair<std::string_view, CompareOp>, 6> kComparisons = {{
    {"==", CompareOp::kEq},
    {"!=", CompareOp::kNe},
    {"<", CompareOp::kLt},
    {"<=", CompareOp::kLe},
    {">", CompareOp::kGt},
    {">=", CompareOp::kGe},
}};

constexpr std::array<std::pair<std::string_view, ArithmeticOp>, 7> kArithmetic = {{
    {"+", ArithmeticOp::kAdd},
    {"-", ArithmeticOp::kSub},
    {"*", ArithmeticOp::kMul},
    {"/", ArithmeticOp::kDiv},
    {"//", ArithmeticOp::kFloorDiv},
    {"%", ArithmeticOp::kMod},
    {"**", ArithmeticOp::kPow},
}};

constexpr std::array<std::string_view, 8> kReservedNames = {"and", "else", "if", "in",
                                                            "is",  "not",  "or", "elif"};

template <class Table>
auto find_operator(const Table& table, const Token& token)
    -> std::optional<typename Table::value_type::second_type> {
  if (token.kind != TokenKind::kOperator) return std::nullopt;
  for (const auto& [text, op] : table) {
    if (token.text == text) return op;
  }
  return std::nullopt;
}

void adopt(Expr& parent, ExprPtr& slot, ExprPtr child) {
  deepen(parent, child);
  slot = std::move(child);
}

void adopt_into(Expr& parent, std::vector<ExprPtr>& slots, ExprPtr child) {
  slots.emplace_back();
  adopt(parent, slots.back(), std::move(child));
}

}  // namespace

Result<ExprPtr> ExpressionParser::grown(ExprPtr node) const {
  if (node->depth > kMaxSyntaxDepth) return in_.fail("the expression nests too deeply");
  return node;
}

Result<ExprPtr> ExpressionParser::parse_expression() {
  const Nesting nesting(in_);
  if (nesting.too_deep()) return in_.fail("the expression nests too deeply");
  QUIRE_TRY(ExprPtr node, parse_binary(kOr));
  while (in_.skip_name("if")) {
    auto conditional = std::make_unique<ConditionalExpr>(node->line);
    adopt(*conditional, conditional->then, std::move(node));
    QUIRE_TRY(ExprPtr condition, parse_binary(kOr));
    adopt(*conditional, conditional->condition, std::move(condition));
    if (in_.skip_name("else")) {
      QUIRE_TRY(ExprPtr otherwise, parse_expression());
      adopt(*conditional, conditional->otherwise, std::move(otherwise));
    }
    QUIRE_TRY(node, grown(std::move(conditional)));
  }
  return node;
}

Result<ExprPtr> ExpressionParser::parse_tuple() {
  return parse_tuple_items(Conditionals::kRead, false);
}

Result<ExprPtr> ExpressionParser::parse_tuple_without_conditional() {
  return parse_tuple_items(Conditionals::kLeave, false);
}

Result<ExprPtr> ExpressionParser::parse_tuple_items(Conditionals conditionals,
                                                    bool in_parentheses) {
  auto tuple = std::make_unique<SequenceExpr>(in_.current().line);
  tuple->sequence_kind = SequenceKind::kTuple;
  bool has_comma = false;
  while (true) {
    const Token& token = in_.current();
    const bool at_end = token.kind == TokenKind::kVariableEnd ||
                        token.kind == TokenKind::kBlockEnd || token.is_operator(")") ||
                        token.is_name("recursive");
    if (at_end) break;
    QUIRE_TRY(ExprPtr item,
              conditionals == Conditionals::kRead ? parse_expression() : parse_binary(kOr));
    adopt_into(*tuple, tuple->items, std::move(item));
    if (!in_.skip_operator(",")) break;
    has_comma = true;
  }
  if (!has_comma && !tuple->items.empty()) return std::move(tuple->items.front());
  if (!has_comma && !in_parentheses) return in_.unexpected("an expression");
  return grown(std::move(tuple));
}

int ExpressionParser::current_level() const {
  const Token& token = in_.current();
  if (token.is_name("or")) return kOr;
  if (token.is_name("and")) return kAnd;
  if (token.is_name("in")) return kComparison;
  if (token.is_name("not") && in_.look().is_name("in")) return kComparison;
  if (find_operator(kComparisons, token)) return kComparison;
  if (token.is_operator("~")) return kConcat;
  if (const auto op = find_operator(kArithmetic, token)) {
    if (*op == ArithmeticOp::kPow) return kPower;
    return *op == ArithmeticOp::kAdd || *op == ArithmeticOp::kSub ? kSum : kProduct;
  }
  return kNoOperator;
}

Result<ExprPtr> ExpressionParser::parse_binary(int min_level) {
  const Nesting nesting(in_);
  if (nesting.too_deep()) return in_.fail("the expression nests too deeply");
  ExprPtr left;
  if (min_level <= kNot && in_.current().is_name("not")) {
    auto node = std::make_unique<UnaryExpr>(in_.next().line);
    QUIRE_TRY(ExprPtr operand, parse_binary(kNot));
    adopt(*node, node->operand, std::move(operand));
    left = std::move(node);
  } else {
    QUIRE_TRY(left, parse_unary(true));
  }
  for (int level = current_level(); level != kNoOperator && level >= min_level;
       level = current_level()) {
    QUIRE_TRY(ExprPtr joined, parse_operator(std::move(left), level));
    QUIRE_TRY(left, grown(std::move(joined)));
  }
  return left;
}

Result<ExprPtr> ExpressionParser::parse_operator(ExprPtr left, int level) {
  if (level <= kAnd) return parse_logical(std::move(left), level);
  if (level == kComparison) return parse_comparison(std::move(left));
  if (level == kConcat) return parse_concat(std::move(left));
  return parse_arithmetic(std::move(left), level);
}

Result<ExprPtr> ExpressionParser::parse_logical(ExprPtr left, int level) {
  auto node = std::make_unique<LogicalExpr>(left->line);
  node->op = level == kOr ? LogicalOp::kOr : LogicalOp::kAnd;
  adopt_into(*node, node->operands, std::move(left));
  while (in_.skip_name(level == kOr ? "or" : "and")) {
    QUIRE_TRY(ExprPtr operand, parse_binary(level + 1));
    adopt_into(*node, node->operands, std::move(operand));
  }
  return ExprPtr(std::move(node));
}

Result<ExprPtr> ExpressionParser::parse_comparison(ExprPtr left) {
  auto node = std::make_unique<CompareExpr>(left->line);
  adopt(*node, node->first, std::move(left));
  while (current_level() == kComparison) {
    CompareOp op = CompareOp::kIn;
    if (in_.skip_name("not")) {
      op = CompareOp::kNotIn;
    } else if (const auto found = find_operator(kComparisons, in_.current())) {
      op = *found;
    }
    in_.next();
    QUIRE_TRY(ExprPtr right, parse_binary(kSum));
    node->rest.emplace_back(op, nullptr);
    adopt(*node, node->rest.back().second, std::move(right));
  }
  return ExprPtr(std::move(node));
}

Result<ExprPtr> ExpressionParser::parse_concat(ExprPtr left) {
  auto node = std::make_unique<ConcatExpr>(left->line);
  adopt_into(*node, node->operands, std::move(left));
  while (in_.skip_operator("~")) {
    QUIRE_TRY(ExprPtr operand, parse_binary(kProduct));
    adopt_into(*node, node->operands, std::move(operand));
  }
  return ExprPtr(std::move(node));
}

Result<ExprPtr> ExpressionParser::parse_arithmetic(ExprPtr left, int level) {
  auto node = std::make_unique<ArithmeticExpr>(left->line);
  adopt(*node, node->first, std::move(left));
  while (current_level() == level) {
    const ArithmeticOp op = *find_operator(kArithmetic, in_.next());
    QUIRE_TRY(ExprPtr right, parse_binary(level + 1));
    node->rest.emplace_back(op, nullptr);
    adopt(*node, node->rest.back().second, std::move(right));
  }
  return ExprPtr(std::move(node));
}

Result<ExprPtr> ExpressionParser::parse_unary(bool with_filters) {
  const Token& token = in_.current();
  ExprPtr node;
  if (token.is_operator("-") || token.is_operator("+")) {
    QUIRE_TRY(node, parse_sign());
  } else {
    QUIRE_TRY(node, parse_primary());
  }
  QUIRE_TRY(node, parse_postfix(std::move(node)));
  return with_filters ? parse_filters(std::move(node)) : std::move(node);
}

Result<ExprPtr> ExpressionParser::parse_sign() {
  const Nesting nesting(in_);
  if (nesting.too_deep()) return in_.fail("the expression nests too deeply");
  const Token sign = in_.next();
  auto node = std::make_unique<UnaryExpr>(sign.line);
  node->op = sign.text == "-" ? UnaryOp::kNegative : UnaryOp::kPositive;
  QUIRE_TRY(ExprPtr operand, parse_unary(false));
  adopt(*node, node->operand, std::move(operand));
  return ExprPtr(std::move(node));
}

Result<ExprPtr> ExpressionParser::parse_primary() {
  const Token& token = in_.current();
  if (token.is_operator("(")) {
    in_.next();
    QUIRE_TRY(ExprPtr inner, parse_tuple_items(Conditionals::kRead, true));
    QUIRE_TRY_VOID(in_.expect_operator(")"));
    return inner;
  }
  if (token.is_operator("[")) return parse_list();
  if (token.is_operator("{")) return parse_dict();
  return parse_literal();
}

Result<ExprPtr> ExpressionParser::parse_literal() {
  const Token token = in_.current();
  auto literal = std::make_unique<LiteralExpr>(token.line);
  if (token.kind == TokenKind::kString) {
    std::string text;
    while (in_.current().kind == TokenKind::kString) text += in_.next().text;
    literal->value = Value::string(std::move(text));
    return ExprPtr(std::move(literal));
  }
  if (token.kind == TokenKind::kInteger) {
    const std::string_view digits = token.text;
    const char mark = digits.size() > 1 ? static_cast<char>(digits[1] | 0x20) : '\0';
    const int base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
    int64_t number = 0;
    const char* begin = digits.data() + (base == 10 ? 0 : 2);
    if (std::from_chars(begin, digits.data() + digits.size(), number, base).ec != std::errc()) {
      return in_.fail(fmt::format("the integer {} is too large", digits));
    }
    literal->value = Value(number);
  } else if (token.kind == TokenKind::kFloat) {
    double number = 0;
    std::from_chars(token.text.data(), token.text.data() + token.text.size(), number);
    literal->value = Value(number);
  } else if (token.kind != TokenKind::kName ||
             std::find(kReservedNames.begin(), kReservedNames.end(), token.text) !=
                 kReservedNames.end()) {
    return in_.unexpected("an expression");
  } else if (token.text == "true" || token.text == "True") {
    literal->value = Value(true);
  } else if (token.text == "false" || token.text == "False") {
    literal->value = Value(false);
  } else if (token.text != "none" && token.text != "None") {
    auto name = std::make_unique<NameExpr>(token.line);
    name->symbol = in_.intern(token.text);
    in_.reads_.push_back(name->symbol);
    in_.next();
    return ExprPtr(std::move(name));
  }
  in_.next();
  return ExprPtr(std::move(literal));
}

Result<ExprPtr> ExpressionParser::parse_list() {
  auto list = std::make_unique<SequenceExpr>(in_.next().line);
  while (!in_.current().is_operator("]")) {
    if (!list->items.empty()) {
      QUIRE_TRY_VOID(in_.expect_operator(","));
      if (in_.current().is_operator("]")) break;
    }
    QUIRE_TRY(ExprPtr item, parse_expression());
    adopt_into(*list, list->items, std::move(item));
  }
  in_.next();
  return ExprPtr(std::move(list));
}

Result<ExprPtr> ExpressionParser::parse_dict() {
  auto dict = std::make_unique<DictExpr>(in_.next().line);
  while (!in_.current().is_operator("}")) {
    if (!dict->entries.empty()) {
      QUIRE_TRY_VOID(in_.expect_operator(","));
      if (in_.current().is_operator("}")) break;
    }
    dict->entries.emplace_back();
    QUIRE_TRY(ExprPtr key, parse_expression());
    adopt(*dict, dict->entries.back().first, std::move(key));
    QUIRE_TRY_VOID(in_.expect_operator(":"));
    QUIRE_TRY(ExprPtr value, parse_expression());
    adopt(*dict, dict->entries.back().second, std::move(value));
  }
  in_.next();
  return ExprPtr(std::move(dict));
}

}  // namespace quire::context::jinja
