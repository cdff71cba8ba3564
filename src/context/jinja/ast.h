// ast.h: a parsed template as a tree of statements and expressions.
//
// Built by parser.h, read by the interpreter, immutable afterwards and free of per-render state, so
// that any number of threads may render one tree. Names are numbered by the symbol table. Depth is
// bounded by kMaxSyntaxDepth; long chains ("a + b + c ...") are flat nodes.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "context/jinja/value.h"

namespace quire::context::jinja {

/// A variable name's index in Syntax::symbols.
using Symbol = int32_t;

enum class ExprKind : uint8_t {
  kLiteral,
  kName,
  kSequence,
  kDict,
  kUnary,
  kArithmetic,
  kLogical,
  kCompare,
  kConcat,
  kConditional,
  kAttribute,
  kItem,
  kSlice,
  kCall,
  kFilter,
  kTest
};

struct Expr {
  Expr(ExprKind expr_kind, int32_t source_line) : kind(expr_kind), line(source_line) {}
  virtual ~Expr() = default;
  ExprKind kind;
  int32_t line;
  int32_t depth = 1;
};
using ExprPtr = std::unique_ptr<Expr>;

/// Makes a parent at least one deeper than a child, which may be absent.
inline void deepen(Expr& parent, const ExprPtr& child) {
  if (child) parent.depth = std::max(parent.depth, child->depth + 1);
}

/// f(a, b, key=c, *star, **double_star)
struct CallArguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> keyword;
  ExprPtr star, double_star;
};

struct LiteralExpr : Expr {
  explicit LiteralExpr(int32_t l) : Expr(ExprKind::kLiteral, l) {}
  Value value;
};
struct NameExpr : Expr {
  explicit NameExpr(int32_t l) : Expr(ExprKind::kName, l) {}
  Symbol symbol = 0;
};
struct SequenceExpr : Expr {  // [a, b] or (a, b)
  explicit SequenceExpr(int32_t l) : Expr(ExprKind::kSequence, l) {}
  SequenceKind sequence_kind = SequenceKind::kList;
  std::vector<ExprPtr> items;
};
struct DictExpr : Expr {
  explicit DictExpr(int32_t l) : Expr(ExprKind::kDict, l) {}
  std::vector<std::pair<ExprPtr, ExprPtr>> entries;
};
enum class UnaryOp : uint8_t { kNot, kNegative, kPositive };
struct UnaryExpr : Expr {
  explicit UnaryExpr(int32_t l) : Expr(ExprKind::kUnary, l) {}
  UnaryOp op = UnaryOp::kNot;
  ExprPtr operand;
};
enum class ArithmeticOp : uint8_t { kAdd, kSub, kMul, kDiv, kFloorDiv, kMod, kPow };
struct ArithmeticExpr : Expr {  // first op a op b ..., from the left
  explicit ArithmeticExpr(int32_t l) : Expr(ExprKind::kArithmetic, l) {}
  ExprPtr first;
  std::vector<std::pair<ArithmeticOp, ExprPtr>> rest;
};
enum class LogicalOp : uint8_t { kAnd, kOr };
struct LogicalExpr : Expr {
  explicit LogicalExpr(int32_t l) : Expr(ExprKind::kLogical, l) {}
  LogicalOp op = LogicalOp::kAnd;
  std::vector<ExprPtr> operands;
};
enum class CompareOp : uint8_t { kEq, kNe, kLt, kLe, kGt, kGe, kIn, kNotIn };
struct CompareExpr : Expr {  // a < b < c
  explicit CompareExpr(int32_t l) : Expr(ExprKind::kCompare, l) {}
  ExprPtr first;
  std::vector<std::pair<CompareOp, ExprPtr>> rest;
};
struct ConcatExpr : Expr {  // a ~ b ~ c
  explicit ConcatExpr(int32_t l) : Expr(ExprKind::kConcat, l) {}
  std::vector<ExprPtr> operands;
};
struct ConditionalExpr : Expr {  // then if condition else otherwise
  explicit ConditionalExpr(int32_t l) : Expr(ExprKind::kConditional, l) {}
  ExprPtr condition, then, otherwise;  // otherwise may be absent
};
struct AttributeExpr : Expr {  // object.name
  explicit AttributeExpr(int32_t l) : Expr(ExprKind::kAttribute, l) {}
  ExprPtr object;
  std::string name;
};
struct ItemExpr : Expr {  // object[index]
  explicit ItemExpr(int32_t l) : Expr(ExprKind::kItem, l) {}
  ExprPtr object, index;
};
struct SliceExpr : Expr {  // object[start:stop:step], each part optional
  explicit SliceExpr(int32_t l) : Expr(ExprKind::kSlice, l) {}
  ExprPtr object, start, stop, step;
};
struct CallExpr : Expr {
  explicit CallExpr(int32_t l) : Expr(ExprKind::kCall, l) {}
  ExprPtr callee;
  CallArguments arguments;
};
struct FilterExpr : Expr {
  explicit FilterExpr(int32_t l) : Expr(ExprKind::kFilter, l) {}
  ExprPtr input;  // absent in {% filter %} and {% set x | f %}: the captured text
  std::string name;
  CallArguments arguments;
};
struct TestExpr : Expr {
  explicit TestExpr(int32_t l) : Expr(ExprKind::kTest, l) {}
  ExprPtr input;
  std::string name;
  CallArguments arguments;
};

enum class StatementKind : uint8_t {
  kOutput,
  kSet,
  kSetBlock,
  kFor,
  kIf,
  kMacro,
  kCallBlock,
  kFilterBlock,
  kWith,
  kScope,
  kBreak,
  kContinue
};

struct Statement {
  Statement(StatementKind statement_kind, int32_t source_line)
      : kind(statement_kind), line(source_line) {}
  virtual ~Statement() = default;
  StatementKind kind;
  int32_t line;
};
using StatementPtr = std::unique_ptr<Statement>;
using Body = std::vector<StatementPtr>;

/// What an assignment or a loop binds: a name, several names, or an attribute of a namespace.
struct Target {
  Symbol symbol = -1;            // of a name, or of the namespace
  std::string attribute;         // not empty: symbol.attribute
  std::vector<Target> elements;  // not empty: unpacks
  bool is_tuple = false;
};

struct OutputStatement : Statement {
  explicit OutputStatement(int32_t l) : Statement(StatementKind::kOutput, l) {}
  std::vector<ExprPtr> parts;
};
struct SetStatement : Statement {
  explicit SetStatement(int32_t l) : Statement(StatementKind::kSet, l) {}
  Target target;
  ExprPtr value;
};
struct SetBlockStatement : Statement {
  explicit SetBlockStatement(int32_t l) : Statement(StatementKind::kSetBlock, l) {}
  Target target;
  ExprPtr filter;  // may be absent
  Body body;
};
struct ForStatement : Statement {
  explicit ForStatement(int32_t l) : Statement(StatementKind::kFor, l) {}
  Target target;
  ExprPtr iterable, condition;  // condition may be absent
  Body body, otherwise;
  bool recursive = false;
};
struct IfStatement : Statement {
  explicit IfStatement(int32_t l) : Statement(StatementKind::kIf, l) {}
  std::vector<std::pair<ExprPtr, Body>> branches;
  Body otherwise;
};
struct MacroDefinition {
  std::string name;
  std::vector<std::pair<Symbol, std::string>> parameters;
  std::vector<ExprPtr> defaults;  // of the last parameters
  Body body;
  bool uses_caller = false, uses_kwargs = false, uses_varargs = false;
};
struct MacroStatement : Statement {
  explicit MacroStatement(int32_t l) : Statement(StatementKind::kMacro, l) {}
  Symbol symbol = 0;
  MacroDefinition macro;
};
struct CallBlockStatement : Statement {
  explicit CallBlockStatement(int32_t l) : Statement(StatementKind::kCallBlock, l) {}
  MacroDefinition caller;
  std::unique_ptr<CallExpr> call;
};
struct FilterBlockStatement : Statement {
  explicit FilterBlockStatement(int32_t l) : Statement(StatementKind::kFilterBlock, l) {}
  ExprPtr filter;
  Body body;
};
struct WithStatement : Statement {
  explicit WithStatement(int32_t l) : Statement(StatementKind::kWith, l) {}
  std::vector<std::pair<Target, ExprPtr>> assignments;
  Body body;
};
struct ScopeStatement : Statement {  // {% generation %}
  explicit ScopeStatement(int32_t l) : Statement(StatementKind::kScope, l) {}
  Body body;
};
struct JumpStatement : Statement {  // {% break %}, {% continue %}
  using Statement::Statement;
};

/// A whole template.
struct Syntax {
  Body body;
  std::vector<std::string> symbols;
};

}  // namespace quire::context::jinja
