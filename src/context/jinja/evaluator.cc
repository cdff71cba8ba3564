// The expressions of Interpreter.
#include <fmt/format.h>

#include <algorithm>

#include "context/jinja/filters.h"
#include "context/jinja/interpreter.h"
#include "context/jinja/methods.h"
#include "context/jinja/operators.h"
#include "context/jinja/print.h"
#include "context/jinja/tests.h"

namespace quire::context::jinja {
namespace {

/// How much more a call counts than a node, by the size of its frames.
constexpr int32_t kCallDepth = 4;

}  // namespace

Result<Value> Interpreter::evaluate(const Expr& expr) {
  const Depth depth(*this);
  Result<Value> value = depth.exceeded()            ? Budget::too_deep()
                        : !runtime_.budget.spend(1) ? Budget::exhausted()
                                                    : evaluate_by_kind(expr);
  if (!value.ok() && error_line_ == 0) error_line_ = expr.line;
  return value;
}

Result<Value> Interpreter::evaluate_by_kind(const Expr& expr) {
  switch (expr.kind) {
    case ExprKind::kLiteral:
      return static_cast<const LiteralExpr&>(expr).value;
    case ExprKind::kName:
      return name(static_cast<const NameExpr&>(expr));
    case ExprKind::kSequence:
      return sequence(static_cast<const SequenceExpr&>(expr));
    case ExprKind::kDict:
      return dict(static_cast<const DictExpr&>(expr));
    case ExprKind::kUnary:
      return unary(static_cast<const UnaryExpr&>(expr));
    case ExprKind::kArithmetic:
      return arithmetic_chain(static_cast<const ArithmeticExpr&>(expr));
    case ExprKind::kLogical:
      return logical(static_cast<const LogicalExpr&>(expr));
    case ExprKind::kCompare:
      return comparison(static_cast<const CompareExpr&>(expr));
    case ExprKind::kConcat:
      return concatenation(static_cast<const ConcatExpr&>(expr));
    case ExprKind::kConditional:
      return conditional(static_cast<const ConditionalExpr&>(expr));
    case ExprKind::kAttribute:
      return attribute(static_cast<const AttributeExpr&>(expr));
    case ExprKind::kItem:
      return item(static_cast<const ItemExpr&>(expr));
    case ExprKind::kSlice:
      return slice(static_cast<const SliceExpr&>(expr));
    case ExprKind::kCall:
      return call(static_cast<const CallExpr&>(expr));
    case ExprKind::kFilter:
      return filter(static_cast<const FilterExpr&>(expr));
    case ExprKind::kTest:
      return test(static_cast<const TestExpr&>(expr));
  }
  return Value();
}

Result<Value> Interpreter::evaluate_or_none(const ExprPtr& expr) {
  return expr ? evaluate(*expr) : Value();
}

Result<std::vector<Value>> Interpreter::evaluate_all(const std::vector<ExprPtr>& exprs) {
  std::vector<Value> values;
  values.reserve(exprs.size());
  for (const ExprPtr& expr : exprs) {
    QUIRE_TRY(Value value, evaluate(*expr));
    values.push_back(std::move(value));
  }
  return values;
}

Result<Value> Interpreter::name(const NameExpr& expr) {
  QUIRE_TRY(const Value* value, find(expr.symbol));
  if (value != nullptr) return *value;
  const std::string& name = syntax_.symbols[static_cast<size_t>(expr.symbol)];
  return Value::undefined(quoted(name) + " is undefined");
}

Result<Value> Interpreter::sequence(const SequenceExpr& expr) {
  QUIRE_TRY(std::vector<Value> items, evaluate_all(expr.items));
  return make_sequence(runtime_, std::move(items), expr.sequence_kind);
}

Result<Value> Interpreter::dict(const DictExpr& expr) {
  Dict dict;
  for (const auto& [key_expr, value_expr] : expr.entries) {
    QUIRE_TRY(Value key, evaluate(*key_expr));
    QUIRE_TRY(Value value, evaluate(*value_expr));
    QUIRE_TRY_VOID(canonical_key(runtime_, key));
    dict.set(std::move(key), std::move(value));
  }
  return make_dict(runtime_, std::move(dict));
}

Result<Value> Interpreter::unary(const UnaryExpr& expr) {
  QUIRE_TRY(const Value value, evaluate(*expr.operand));
  if (expr.op == UnaryOp::kNot) return Value(!value.truthy());
  return expr.op == UnaryOp::kNegative ? negative(value) : positive(value);
}

Result<Value> Interpreter::arithmetic_chain(const ArithmeticExpr& expr) {
  QUIRE_TRY(Value left, evaluate(*expr.first));
  for (const auto& [op, operand] : expr.rest) {
    QUIRE_TRY(const Value right, evaluate(*operand));
    QUIRE_TRY(left, arithmetic(runtime_, op, left, right));
  }
  return left;
}

Result<Value> Interpreter::logical(const LogicalExpr& expr) {
  Value value;
  for (const ExprPtr& operand : expr.operands) {
    QUIRE_TRY(value, evaluate(*operand));
    if (value.truthy() == (expr.op == LogicalOp::kOr)) return value;
  }
  return value;
}

Result<Value> Interpreter::comparison(const CompareExpr& expr) {
  QUIRE_TRY(Value left, evaluate(*expr.first));
  for (const auto& [op, operand] : expr.rest) {
    QUIRE_TRY(Value right, evaluate(*operand));
    QUIRE_TRY(const bool holds, compare(runtime_, op, left, right));
    if (!holds) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Result<Value> Interpreter::concatenation(const ConcatExpr& expr) {
  Text out;
  for (const ExprPtr& operand : expr.operands) {
    QUIRE_TRY(const Value value, evaluate(*operand));
    QUIRE_TRY_VOID(append_str(runtime_, out, value));
  }
  return make_text(runtime_, std::move(out));
}

Result<Value> Interpreter::conditional(const ConditionalExpr& expr) {
  QUIRE_TRY(const Value condition, evaluate(*expr.condition));
  if (condition.truthy()) return evaluate(*expr.then);
  if (expr.otherwise) return evaluate(*expr.otherwise);
  return Value::undefined("the inline if-expression was false and has no else");
}

Result<Value> Interpreter::attribute(const AttributeExpr& expr) {
  QUIRE_TRY(const Value object, evaluate(*expr.object));
  return get_attribute(runtime_, object, expr.name);
}

Result<Value> Interpreter::item(const ItemExpr& expr) {
  QUIRE_TRY(const Value object, evaluate(*expr.object));
  QUIRE_TRY(const Value index, evaluate(*expr.index));
  return get_item(runtime_, object, index);
}

Result<Value> Interpreter::slice(const SliceExpr& expr) {
  QUIRE_TRY(const Value object, evaluate(*expr.object));
  QUIRE_TRY(const Value start, evaluate_or_none(expr.start));
  QUIRE_TRY(const Value stop, evaluate_or_none(expr.stop));
  QUIRE_TRY(const Value step, evaluate_or_none(expr.step));
  return get_slice(runtime_, object, start, stop, step);
}

Result<Value> Interpreter::filter(const FilterExpr& expr) {
  Value input = block_text_;
  if (expr.input) {
    QUIRE_TRY(input, evaluate(*expr.input));
  }
  QUIRE_TRY(const Arguments arguments, evaluate_arguments(expr.arguments));
  return apply_filter(runtime_, expr.name, input, arguments);
}

Result<Value> Interpreter::test(const TestExpr& expr) {
  QUIRE_TRY(const Value input, evaluate(*expr.input));
  QUIRE_TRY(const Arguments arguments, evaluate_arguments(expr.arguments));
  QUIRE_TRY(const bool passes, apply_test(runtime_, expr.name, input, arguments));
  return Value(passes);
}

Result<Arguments> Interpreter::evaluate_arguments(const CallArguments& arguments) {
  Arguments out;
  QUIRE_TRY(out.positional, evaluate_all(arguments.positional));
  for (const auto& [name, expr] : arguments.keyword) {
    QUIRE_TRY(Value value, evaluate(*expr));
    out.keyword.emplace_back(name, std::move(value));
  }
  if (arguments.star) QUIRE_TRY_VOID(add_star(*arguments.star, out));
  if (arguments.double_star) QUIRE_TRY_VOID(add_double_star(*arguments.double_star, out));
  return out;
}

Result<void> Interpreter::add_star(const Expr& expr, Arguments& arguments) {
  QUIRE_TRY(Value star, evaluate(expr));
  QUIRE_TRY(const std::vector<Value> more, iterate(runtime_, star));
  arguments.positional.insert(arguments.positional.end(), more.begin(), more.end());
  return {};
}

Result<void> Interpreter::add_double_star(const Expr& expr, Arguments& arguments) {
  QUIRE_TRY(const Value names, evaluate(expr));
  if (!names.is_dict()) return template_error("an argument after ** must be a mapping");
  if (!runtime_.budget.spend(2 * names.as_dict()->size())) return Budget::exhausted();
  for (const Dict::Entry& entry : names.as_dict()->entries()) {
    if (!entry.first.is_string()) return template_error("keywords must be strings");
    arguments.keyword.emplace_back(entry.first.as_text()->bytes(), entry.second);
  }
  return {};
}

Result<Value> Interpreter::call(const CallExpr& expr) {
  if (expr.callee->kind == ExprKind::kAttribute) {
    return call_attribute(static_cast<const AttributeExpr&>(*expr.callee), expr.arguments);
  }
  QUIRE_TRY(const Value callee, evaluate(*expr.callee));
  QUIRE_TRY(const Arguments arguments, evaluate_arguments(expr.arguments));
  return call_value(callee, arguments);
}

/// object.name(...), without making a bound method first.
Result<Value> Interpreter::call_attribute(const AttributeExpr& callee,
                                          const CallArguments& call_arguments) {
  QUIRE_TRY(const Value object, evaluate(*callee.object));
  const bool is_method = has_method(object, callee.name);
  Value function;
  if (!is_method) {
    QUIRE_TRY(function, get_attribute(runtime_, object, callee.name));
  }
  QUIRE_TRY(const Arguments arguments, evaluate_arguments(call_arguments));
  return is_method ? call_method(runtime_, object, callee.name, arguments)
                   : call_value(function, arguments);
}

Result<Value> Interpreter::call_value(const Value& callee, const Arguments& arguments) {
  const Depth depth(*this, kCallDepth);
  if (depth.exceeded()) return Budget::too_deep();
  Object* object = callee.as_object();
  if (const auto* macro = dynamic_cast<const Macro*>(object)) return call_macro(*macro, arguments);
  if (const auto* loop = dynamic_cast<const Loop*>(object)) return call_loop(*loop, arguments);
  if (const auto* function = dynamic_cast<const Function*>(object)) {
    return function->call(runtime_, arguments);
  }
  QUIRE_TRY_VOID(require_defined(callee));
  return template_error(fmt::format("'{}' object is not callable", callee.type_name()));
}

Result<Value> Interpreter::call_loop(const Loop& loop, const Arguments& arguments) {
  if (!loop.statement().recursive) {
    return template_error("a loop must be marked 'recursive' to be called");
  }
  QUIRE_TRY(const Bound bound, bind("loop", arguments, {"iterable"}, 1));
  Text out;
  QUIRE_TRY_VOID(run_loop(loop.statement(), *bound[0], loop.depth() + 1, out));
  return make_text(runtime_, std::move(out));
}

Result<Value> Interpreter::call_macro(const Macro& macro, const Arguments& arguments) {
  const MacroDefinition& definition = macro.definition;
  const size_t num_parameters = definition.parameters.size();
  const size_t num_comparisons = num_parameters * (num_parameters + arguments.keyword.size());
  if (!runtime_.budget.spend(4 + num_comparisons / 16)) return Budget::exhausted();
  auto inside = std::make_shared<Scope>(Scope{macro.scope, {}});
  QUIRE_TRY_VOID(bind_extras(definition, arguments, *inside));
  const ScopePtr outside = std::exchange(scope_, inside);
  Text out;
  Result<void> bound = bind_parameters(definition, arguments, *inside);
  Result<Flow> flow = bound.ok() ? execute(definition.body, out) : Result<Flow>(bound.error());
  scope_ = outside;
  if (!flow.ok()) return std::move(flow).error();
  return make_text(runtime_, std::move(out));
}

Result<void> Interpreter::bind_parameters(const MacroDefinition& definition,
                                          const Arguments& arguments, Scope& scope) {
  const size_t first_default = definition.parameters.size() - definition.defaults.size();
  for (size_t i = 0; i < definition.parameters.size(); ++i) {
    const auto& [symbol, name] = definition.parameters[i];
    const auto keyword =
        std::find_if(arguments.keyword.begin(), arguments.keyword.end(),
                     [&name = name](const auto& argument) { return argument.first == name; });
    if (i < arguments.positional.size()) {
      scope.set(symbol, arguments.positional[i]);
    } else if (keyword != arguments.keyword.end()) {
      scope.set(symbol, keyword->second);
    } else if (i >= first_default) {
      QUIRE_TRY(Value value, evaluate(*definition.defaults[i - first_default]));
      scope.set(symbol, std::move(value));
    } else {
      scope.set(symbol, Value::undefined("parameter " + quoted(name) + " was not provided"));
    }
  }
  return {};
}

/// caller, kwargs and varargs, for macros that use them; an error for arguments nobody takes.
Result<void> Interpreter::bind_extras(const MacroDefinition& definition, const Arguments& arguments,
                                      Scope& scope) {
  const auto index_of_parameter = [&](std::string_view name) {
    const auto found =
        std::find_if(definition.parameters.begin(), definition.parameters.end(),
                     [&](const auto& parameter) { return parameter.second == name; });
    return static_cast<size_t>(found - definition.parameters.begin());
  };
  const size_t num_parameters = definition.parameters.size();
  Value caller = Value::undefined("No caller defined");
  Dict kwargs;
  for (const auto& [name, value] : arguments.keyword) {
    const size_t index = index_of_parameter(name);
    if (index < num_parameters && index >= arguments.positional.size()) continue;
    if (name == "caller" && definition.uses_caller && index == num_parameters) {
      caller = value;
    } else if (definition.uses_kwargs) {
      kwargs.set(Value::string(name), value);
    } else {
      return template_error(fmt::format("macro {} takes no keyword argument {}",
                                        quoted(definition.name), quoted(name)));
    }
  }
  std::vector<Value> varargs;
  if (arguments.positional.size() > num_parameters) {
    if (!definition.uses_varargs) {
      return template_error(fmt::format("macro {} takes not more than {} argument(s)",
                                        quoted(definition.name), num_parameters));
    }
    varargs.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(num_parameters),
                   arguments.positional.end());
  }
  if (definition.uses_caller && index_of_parameter("caller") == num_parameters) {
    scope.set(caller_symbol_, std::move(caller));
  }
  if (definition.uses_kwargs) {
    QUIRE_TRY(Value value, make_dict(runtime_, std::move(kwargs)));
    scope.set(kwargs_symbol_, std::move(value));
  }
  if (definition.uses_varargs) {
    QUIRE_TRY(Value value, make_sequence(runtime_, std::move(varargs), SequenceKind::kTuple));
    scope.set(varargs_symbol_, std::move(value));
  }
  return {};
}

Result<std::optional<Value>> Interpreter::Macro::attribute(std::string_view name) {
  if (name == "name") return std::optional(Value::string(definition.name));
  if (name == "caller") return std::optional(Value(definition.uses_caller));
  return std::optional<Value>();
}

}  // namespace quire::context::jinja
