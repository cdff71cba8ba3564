// interpreter.h: runs a syntax tree: statements write to a text, expressions give values.
//
// Scopes follow Jinja: a loop's body, a macro, a block set and `with` have their own; `if` has
// none; a scope sees the names around it and assigns only its own. Every failure knows its line.
// One object per render, one thread; the tree must outlive it.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "context/jinja/ast.h"
#include "context/jinja/loop.h"
#include "context/jinja/runtime.h"

namespace quire::context::jinja {

/// Names and their values; looks into its parent for what it does not have.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<Symbol, Value>> variables;

  /// nullptr if no scope has the name. Adds the number of variables it looked at.
  const Value* find(Symbol symbol, size_t& num_visited) const;
  void set(Symbol symbol, Value value);
};
using ScopePtr = std::shared_ptr<Scope>;

class Interpreter {
 public:
  Interpreter(const Syntax& syntax, Runtime& runtime);

  using Variables = std::vector<std::pair<std::string, Value>>;
  /// The template's output. An error's message starts with "line N: ".
  Result<Text> run(const Variables& variables);

 private:
  class Macro;
  class Depth;
  enum class Flow { kNext, kBreak, kContinue };

  // Statements (interpreter.cc).
  Result<Flow> execute(const Body& body, Text& out);
  Result<Flow> execute(const Statement& statement, Text& out);
  Result<Flow> dispatch(const Statement& statement, Text& out);
  Result<Flow> output(const OutputStatement& statement, Text& out);
  Result<Flow> choose(const IfStatement& statement, Text& out);
  Result<Flow> loop(const ForStatement& statement, Text& out);
  Result<Flow> run_loop(const ForStatement& statement, Value iterable, int32_t depth, Text& out);
  Result<bool> loop_condition(const ForStatement& statement, const ScopePtr& outside,
                              const Value& item);
  Result<ScopePtr> iteration_scope(const ForStatement& statement,
                                   const std::shared_ptr<Loop>& state);
  Result<Flow> set(const SetStatement& statement);
  Result<Flow> set_block(const SetBlockStatement& statement);
  Result<Flow> define_macro(const MacroStatement& statement);
  Result<Flow> call_block(const CallBlockStatement& statement, Text& out);
  Result<Flow> filter_block(const FilterBlockStatement& statement, Text& out);
  Result<Flow> with(const WithStatement& statement, Text& out);
  Result<Flow> execute_in_scope(const Body& body, ScopePtr scope, Text& out);
  Result<Text> capture(const Body& body);
  Result<void> assign(const Target& target, Value value);
  Result<void> assign_name(Symbol symbol, Value value);

  // Expressions (evaluator.cc).
  Result<Value> evaluate(const Expr& expr);
  Result<Value> evaluate_by_kind(const Expr& expr);
  Result<Value> evaluate_or_none(const ExprPtr& expr);
  Result<std::vector<Value>> evaluate_all(const std::vector<ExprPtr>& exprs);
  Result<Value> name(const NameExpr& expr);
  Result<Value> sequence(const SequenceExpr& expr);
  Result<Value> dict(const DictExpr& expr);
  Result<Value> unary(const UnaryExpr& expr);
  Result<Value> arithmetic_chain(const ArithmeticExpr& expr);
  Result<Value> logical(const LogicalExpr& expr);
  Result<Value> comparison(const CompareExpr& expr);
  Result<Value> concatenation(const ConcatExpr& expr);
  Result<Value> conditional(const ConditionalExpr& expr);
  Result<Value> attribute(const AttributeExpr& expr);
  Result<Value> item(const ItemExpr& expr);
  Result<Value> slice(const SliceExpr& expr);
  Result<Value> call(const CallExpr& expr);
  Result<Value> filter(const FilterExpr& expr);
  Result<Value> test(const TestExpr& expr);
  Result<Value> call_attribute(const AttributeExpr& callee, const CallArguments& arguments);
  Result<Arguments> evaluate_arguments(const CallArguments& arguments);
  Result<void> add_star(const Expr& expr, Arguments& arguments);
  Result<void> add_double_star(const Expr& expr, Arguments& arguments);
  Result<Value> call_value(const Value& callee, const Arguments& arguments);
  Result<Value> call_macro(const Macro& macro, const Arguments& arguments);
  Result<Value> call_loop(const Loop& loop, const Arguments& arguments);
  Result<void> bind_parameters(const MacroDefinition& definition, const Arguments& arguments,
                               Scope& scope);
  Result<void> bind_extras(const MacroDefinition& definition, const Arguments& arguments,
                           Scope& scope);
  Result<Value> apply_block_filter(const ExprPtr& filter, Text captured);

  Symbol symbol(std::string_view name) const;
  Result<const Value*> find(Symbol symbol);
  ScopePtr inner_scope() const { return std::make_shared<Scope>(Scope{scope_, {}}); }

  const Syntax& syntax_;
  Runtime& runtime_;
  // Names with a meaning of their own; -1 where the template does not use them.
  const Symbol loop_symbol_, caller_symbol_, kwargs_symbol_, varargs_symbol_;
  ScopePtr scope_;
  Value block_text_;  // what the innermost block filter works on
  int32_t depth_ = 0;
  int32_t error_line_ = 0;  // of the innermost failing node
};

/// A macro, or the body of a call block, with the scope it was defined in.
class Interpreter::Macro : public Object {
 public:
  Macro(const MacroDefinition& macro_definition, ScopePtr outer)
      : definition(macro_definition), scope(std::move(outer)) {}
  std::string_view type_name() const override { return "Macro"; }
  std::string repr() const override { return "<Macro '" + definition.name + "'>"; }
  bool is_callable() const override { return true; }
  Result<std::optional<Value>> attribute(std::string_view name) override;
  void drop_references() override { scope.reset(); }

  const MacroDefinition& definition;
  ScopePtr scope;
};

/// Counts C++ recursion while it lives; a call weighs more than a node, since its frames are
/// larger.
class Interpreter::Depth {
 public:
  explicit Depth(Interpreter& interpreter, int32_t weight = 1)
      : interpreter_(interpreter), weight_(weight) {
    interpreter_.depth_ += weight_;
  }
  ~Depth() { interpreter_.depth_ -= weight_; }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;
  bool exceeded() const { return interpreter_.depth_ > kMaxExecutionDepth; }

 private:
  Interpreter& interpreter_;
  int32_t weight_;
};

}  // namespace quire::context::jinja
