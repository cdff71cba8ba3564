#include "context/jinja/interpreter.h"

#include <fmt/format.h>

#include <algorithm>

#include "context/jinja/globals.h"
#include "context/jinja/print.h"

namespace quire::context::jinja {

const Value* Scope::find(Symbol symbol, size_t& num_visited) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent.get()) {
    for (const auto& [known, value] : scope->variables) {
      ++num_visited;
      if (known == symbol) return &value;
    }
  }
  return nullptr;
}

void Scope::set(Symbol symbol, Value value) {
  for (auto& [known, existing] : variables) {
    if (known == symbol) {
      existing = std::move(value);
      return;
    }
  }
  variables.emplace_back(symbol, std::move(value));
}

Interpreter::Interpreter(const Syntax& syntax, Runtime& runtime)
    : syntax_(syntax),
      runtime_(runtime),
      loop_symbol_(symbol("loop")),
      caller_symbol_(symbol("caller")),
      kwargs_symbol_(symbol("kwargs")),
      varargs_symbol_(symbol("varargs")) {}

Result<const Value*> Interpreter::find(Symbol symbol) {
  size_t num_visited = 0;
  const Value* value = scope_->find(symbol, num_visited);
  if (!runtime_.budget.spend(num_visited / 32)) return Budget::exhausted();
  return value;
}

Symbol Interpreter::symbol(std::string_view name) const {
  const auto found = std::find(syntax_.symbols.begin(), syntax_.symbols.end(), name);
  return found == syntax_.symbols.end() ? -1 : static_cast<Symbol>(found - syntax_.symbols.begin());
}

Result<Text> Interpreter::run(const Variables& variables) {
  auto globals = std::make_shared<Scope>();
  for (size_t i = 0; i < syntax_.symbols.size(); ++i) {
    if (auto function = find_global(syntax_.symbols[i])) {
      globals->set(static_cast<Symbol>(i), std::move(*function));
    }
  }
  for (const auto& [name, value] : variables) {
    if (const Symbol known = symbol(name); known >= 0) globals->set(known, value);
  }
  scope_ = std::make_shared<Scope>(Scope{std::move(globals), {}});
  Text out;
  Result<Flow> flow = execute(syntax_.body, out);
  scope_.reset();
  if (flow.ok()) return out;
  Error error = std::move(flow).error();
  error.message = fmt::format("line {}: {}", std::max(error_line_, 1), error.message);
  return error;
}

Result<Interpreter::Flow> Interpreter::execute(const Body& body, Text& out) {
  for (const StatementPtr& statement : body) {
    QUIRE_TRY(const Flow flow, execute(*statement, out));
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::execute(const Statement& statement, Text& out) {
  const Depth depth(*this);
  Result<Flow> flow = depth.exceeded()            ? Budget::too_deep()
                      : !runtime_.budget.spend(1) ? Budget::exhausted()
                                                  : dispatch(statement, out);
  if (!flow.ok() && error_line_ == 0) error_line_ = statement.line;
  return flow;
}

Result<Interpreter::Flow> Interpreter::dispatch(const Statement& statement, Text& out) {
  switch (statement.kind) {
    case StatementKind::kOutput:
      return output(static_cast<const OutputStatement&>(statement), out);
    case StatementKind::kSet:
      return set(static_cast<const SetStatement&>(statement));
    case StatementKind::kSetBlock:
      return set_block(static_cast<const SetBlockStatement&>(statement));
    case StatementKind::kFor:
      return loop(static_cast<const ForStatement&>(statement), out);
    case StatementKind::kIf:
      return choose(static_cast<const IfStatement&>(statement), out);
    case StatementKind::kMacro:
      return define_macro(static_cast<const MacroStatement&>(statement));
    case StatementKind::kCallBlock:
      return call_block(static_cast<const CallBlockStatement&>(statement), out);
    case StatementKind::kFilterBlock:
      return filter_block(static_cast<const FilterBlockStatement&>(statement), out);
    case StatementKind::kWith:
      return with(static_cast<const WithStatement&>(statement), out);
    case StatementKind::kScope:
      return execute_in_scope(static_cast<const ScopeStatement&>(statement).body, inner_scope(),
                              out);
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::output(const OutputStatement& statement, Text& out) {
  for (const ExprPtr& part : statement.parts) {
    QUIRE_TRY(const Value value, evaluate(*part));
    QUIRE_TRY_VOID(append_str(runtime_, out, value));
    if (out.size() > runtime_.limits.max_output_bytes) return Budget::exhausted();
  }
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::choose(const IfStatement& statement, Text& out) {
  for (const auto& [condition, body] : statement.branches) {
    QUIRE_TRY(const Value value, evaluate(*condition));
    if (value.truthy()) return execute(body, out);
  }
  return execute(statement.otherwise, out);
}

Result<Interpreter::Flow> Interpreter::execute_in_scope(const Body& body, ScopePtr scope,
                                                        Text& out) {
  const ScopePtr outside = std::exchange(scope_, std::move(scope));
  Result<Flow> flow = execute(body, out);
  scope_ = outside;
  return flow;
}

Result<Text> Interpreter::capture(const Body& body) {
  Text out;
  QUIRE_TRY_VOID(execute_in_scope(body, inner_scope(), out));
  return out;
}

Result<Interpreter::Flow> Interpreter::loop(const ForStatement& statement, Text& out) {
  QUIRE_TRY(Value iterable, evaluate(*statement.iterable));
  return run_loop(statement, std::move(iterable), 0, out);
}

Result<bool> Interpreter::loop_condition(const ForStatement& statement, const ScopePtr& outside,
                                         const Value& item) {
  const ScopePtr before = std::exchange(scope_, std::make_shared<Scope>(Scope{outside, {}}));
  Result<bool> passes = [&]() -> Result<bool> {
    QUIRE_TRY_VOID(assign(statement.target, item));
    QUIRE_TRY(const Value value, evaluate(*statement.condition));
    return value.truthy();
  }();
  scope_ = before;
  return passes;
}

Result<Interpreter::Flow> Interpreter::run_loop(const ForStatement& statement, Value iterable,
                                                int32_t depth, Text& out) {
  QUIRE_TRY(std::vector<Value> items, iterate(runtime_, iterable));
  Loop::Condition condition;
  if (statement.condition) {
    condition = [this, &statement, outside = scope_](const Value& item) {
      return loop_condition(statement, outside, item);
    };
  }
  const auto state =
      std::make_shared<Loop>(statement, std::move(items), std::move(condition), depth);
  bool ran = false;
  while (true) {
    QUIRE_TRY(const bool more, state->advance());
    if (!more) break;
    ran = true;
    QUIRE_TRY(ScopePtr inside, iteration_scope(statement, state));
    QUIRE_TRY(const Flow flow, execute_in_scope(statement.body, std::move(inside), out));
    if (flow == Flow::kBreak) break;
  }
  if (ran) return Flow::kNext;
  return execute_in_scope(statement.otherwise, inner_scope(), out);
}

/// A scope for one run of the body, with `loop` and the loop's names in it.
Result<ScopePtr> Interpreter::iteration_scope(const ForStatement& statement,
                                              const std::shared_ptr<Loop>& state) {
  const ScopePtr outside = scope_;
  scope_ = inner_scope();
  if (loop_symbol_ >= 0) scope_->set(loop_symbol_, Value(ObjectPtr(state)));
  Result<void> assigned = assign(statement.target, state->current());
  ScopePtr inside = std::exchange(scope_, outside);
  if (!assigned.ok()) return std::move(assigned).error();
  return inside;
}

Result<void> Interpreter::assign(const Target& target, Value value) {
  if (target.is_tuple) {
    QUIRE_TRY(std::vector<Value> parts, iterate(runtime_, value));
    if (parts.size() != target.elements.size()) {
      return template_error(
          fmt::format("{} values to unpack, expected {}", parts.size(), target.elements.size()));
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      QUIRE_TRY_VOID(assign(target.elements[i], std::move(parts[i])));
    }
    return {};
  }
  if (target.attribute.empty()) return assign_name(target.symbol, std::move(value));
  QUIRE_TRY(const Value* object, find(target.symbol));
  auto* space = object == nullptr ? nullptr : dynamic_cast<Namespace*>(object->as_object());
  if (space == nullptr) return template_error("only a namespace's attributes can be assigned");
  if (!runtime_.budget.spend(4)) return Budget::exhausted();
  space->set(target.attribute, std::move(value));
  return {};
}

Result<void> Interpreter::assign_name(Symbol symbol, Value value) {
  if (!runtime_.budget.spend(scope_->variables.size() / 32)) return Budget::exhausted();
  scope_->set(symbol, std::move(value));
  return {};
}

Result<Interpreter::Flow> Interpreter::set(const SetStatement& statement) {
  QUIRE_TRY(Value value, evaluate(*statement.value));
  QUIRE_TRY_VOID(assign(statement.target, std::move(value)));
  return Flow::kNext;
}

Result<Value> Interpreter::apply_block_filter(const ExprPtr& filter, Text captured) {
  QUIRE_TRY(Value text, make_text(runtime_, std::move(captured)));
  if (!filter) return text;
  Value outer = std::exchange(block_text_, std::move(text));
  Result<Value> filtered = evaluate(*filter);
  block_text_ = std::move(outer);
  return filtered;
}

Result<Interpreter::Flow> Interpreter::set_block(const SetBlockStatement& statement) {
  QUIRE_TRY(Text captured, capture(statement.body));
  QUIRE_TRY(Value value, apply_block_filter(statement.filter, std::move(captured)));
  QUIRE_TRY_VOID(assign(statement.target, std::move(value)));
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::filter_block(const FilterBlockStatement& statement,
                                                    Text& out) {
  QUIRE_TRY(Text captured, capture(statement.body));
  QUIRE_TRY(const Value value, apply_block_filter(statement.filter, std::move(captured)));
  if (!value.is_string()) {
    return template_error(
        fmt::format("a filter block must give text, not '{}'", value.type_name()));
  }
  QUIRE_TRY_VOID(append_str(runtime_, out, value));
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::define_macro(const MacroStatement& statement) {
  auto macro = std::make_shared<Macro>(statement.macro, scope_);
  runtime_.objects.push_back(macro);
  QUIRE_TRY_VOID(assign_name(statement.symbol, Value(ObjectPtr(std::move(macro)))));
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::call_block(const CallBlockStatement& statement, Text& out) {
  const auto caller = std::make_shared<Macro>(statement.caller, scope_);
  runtime_.objects.push_back(caller);
  QUIRE_TRY(const Value callee, evaluate(*statement.call->callee));
  QUIRE_TRY(Arguments arguments, evaluate_arguments(statement.call->arguments));
  arguments.keyword.emplace_back("caller", Value(ObjectPtr(caller)));
  QUIRE_TRY(const Value value, call_value(callee, arguments));
  QUIRE_TRY_VOID(append_str(runtime_, out, value));
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::with(const WithStatement& statement, Text& out) {
  const ScopePtr outside = scope_;
  auto inside = std::make_shared<Scope>(Scope{outside, {}});
  for (const auto& [target, expr] : statement.assignments) {
    QUIRE_TRY(Value value, evaluate(*expr));
    scope_ = inside;
    Result<void> assigned = assign(target, std::move(value));
    scope_ = outside;
    if (!assigned.ok()) return std::move(assigned).error();
  }
  return execute_in_scope(statement.body, std::move(inside), out);
}

}  // namespace quire::context::jinja
