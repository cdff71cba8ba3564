#include "context/jinja/operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/checked_math.h"
#include "context/jinja/text_ops.h"

namespace quire::context::jinja {
namespace {

std::string_view symbol(ArithmeticOp op) {
  switch (op) {
    case ArithmeticOp::kAdd:
      return "+";
    case ArithmeticOp::kSub:
      return "-";
    case ArithmeticOp::kMul:
      return "*";
    case ArithmeticOp::kDiv:
      return "/";
    case ArithmeticOp::kFloorDiv:
      return "//";
    case ArithmeticOp::kMod:
      return "%";
    case ArithmeticOp::kPow:
      return "**";
  }
  return "?";
}

Error unsupported(ArithmeticOp op, const Value& left, const Value& right) {
  if (op == ArithmeticOp::kAdd && left.is_string()) {
    return template_error(
        fmt::format("can only concatenate str (not '{}') to str", right.type_name()));
  }
  return template_error(fmt::format("unsupported operand types for {}: '{}' and '{}'", symbol(op),
                                    left.type_name(), right.type_name()));
}

Error too_large() {
  return template_error("an integer grows beyond 64 bits");
}
Error division_by_zero() {
  return template_error("division by zero");
}

Result<Value> integer(std::optional<int64_t> number, Origin origin) {
  if (!number) return too_large();
  return Value(*number, origin);
}

std::optional<int64_t> checked_pow(int64_t base, int64_t exponent) {
  int64_t result = 1;
  for (std::optional<int64_t> square = base; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0) {
      const auto product = square ? checked_mul(result, *square) : std::nullopt;
      if (!product) return std::nullopt;
      result = *product;
    }
    if (square) square = checked_mul(*square, *square);
  }
  return result;
}

Result<Value> integer_arithmetic(ArithmeticOp op, int64_t a, int64_t b, Origin origin) {
  switch (op) {
    case ArithmeticOp::kAdd:
      return integer(checked_add(a, b), origin);
    case ArithmeticOp::kSub: {
      int64_t difference = 0;
      if (__builtin_sub_overflow(a, b, &difference)) return too_large();
      return Value(difference, origin);
    }
    case ArithmeticOp::kMul:
      return integer(checked_mul(a, b), origin);
    case ArithmeticOp::kDiv:
      if (b == 0) return division_by_zero();
      return Value(static_cast<double>(a) / static_cast<double>(b), origin);
    case ArithmeticOp::kPow:
      if (b >= 0) return integer(checked_pow(a, b), origin);
      if (a == 0) return template_error("0 cannot be raised to a negative power");
      return Value(std::pow(static_cast<double>(a), static_cast<double>(b)), origin);
    default:
      break;
  }
  if (b == 0) return division_by_zero();
  if (b == -1) {  // the one division that overflows
    if (op == ArithmeticOp::kMod) return Value(int64_t{0}, origin);
    return integer(a == INT64_MIN ? std::nullopt : std::optional(-a), origin);
  }
  const int64_t remainder = a % b;
  const bool rounds_down = remainder != 0 && (remainder < 0) != (b < 0);
  if (op == ArithmeticOp::kMod) return Value(rounds_down ? remainder + b : remainder, origin);
  return Value(a / b - (rounds_down ? 1 : 0), origin);
}

/// Python's float modulo takes the divisor's sign.
double float_modulo(double a, double b) {
  double remainder = std::fmod(a, b);
  if (remainder == 0) return std::copysign(0.0, b);
  if ((remainder < 0) != (b < 0)) remainder += b;
  return remainder;
}

double float_floor_division(double a, double b) {
  const double remainder = std::fmod(a, b);
  double quotient = (a - remainder) / b;
  if (remainder != 0 && (remainder < 0) != (b < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floored = std::floor(quotient);
  return quotient - floored > 0.5 ? floored + 1 : floored;
}

Result<Value> float_arithmetic(ArithmeticOp op, double a, double b, Origin origin) {
  const bool divides =
      op == ArithmeticOp::kDiv || op == ArithmeticOp::kFloorDiv || op == ArithmeticOp::kMod;
  if (divides && b == 0) return division_by_zero();
  switch (op) {
    case ArithmeticOp::kAdd:
      return Value(a + b, origin);
    case ArithmeticOp::kSub:
      return Value(a - b, origin);
    case ArithmeticOp::kMul:
      return Value(a * b, origin);
    case ArithmeticOp::kDiv:
      return Value(a / b, origin);
    case ArithmeticOp::kFloorDiv:
      return Value(float_floor_division(a, b), origin);
    case ArithmeticOp::kMod:
      return Value(float_modulo(a, b), origin);
    case ArithmeticOp::kPow:
      break;
  }
  if (a == 0 && b < 0) return template_error("0 cannot be raised to a negative power");
  if (a < 0 && std::floor(b) != b) return template_error("complex numbers are not supported");
  const double power = std::pow(a, b);
  if (std::isinf(power) && !std::isinf(a) && !std::isinf(b)) {
    return template_error("a power grows beyond the range of floats");
  }
  return Value(power, origin);
}

Result<Value> concatenate_sequences(Runtime& runtime, const Sequence& left, const Sequence& right,
                                    Origin origin) {
  const size_t total = left.items.size() + right.items.size();
  if (!runtime.budget.spend(total)) return Budget::exhausted();
  std::vector<Value> items = left.items;
  items.insert(items.end(), right.items.begin(), right.items.end());
  return make_sequence(runtime, std::move(items), left.kind, origin);
}

Result<Value> add_non_numbers(Runtime& runtime, const Value& left, const Value& right) {
  const Text* text = left.as_text();
  const Text* tail = right.as_text();
  if (text != nullptr && tail != nullptr) {
    if (!runtime.budget.spend_bytes(text->size() + tail->size())) return Budget::exhausted();
    Text joined = *text;
    joined.append(*tail);
    return make_text(runtime, std::move(joined));
  }
  const Sequence* first = left.as_sequence();
  const Sequence* second = right.as_sequence();
  const bool joinable = first != nullptr && second != nullptr && first->kind == second->kind &&
                        first->kind <= SequenceKind::kTuple;
  if (!joinable) return unsupported(ArithmeticOp::kAdd, left, right);
  return concatenate_sequences(runtime, *first, *second,
                               joint_origin(left.origin(), right.origin()));
}

Result<Value> repeat(Runtime& runtime, const Value& value, int64_t times) {
  const uint64_t count = times > 0 ? static_cast<uint64_t>(times) : 0;
  if (const Text* text = value.as_text()) {
    const auto bytes = checked_mul<uint64_t>(count, text->size());
    if (!bytes || *bytes > runtime.limits.max_output_bytes || !runtime.budget.spend_bytes(*bytes)) {
      return Budget::exhausted();
    }
    Text out;
    if (text->empty()) return Value(std::move(out));
    if (!runtime.budget.spend(count * text->runs().size())) return Budget::exhausted();
    for (uint64_t i = 0; i < count; ++i) out.append(*text);
    return make_text(runtime, std::move(out));
  }
  const Sequence& sequence = *value.as_sequence();
  const auto total = checked_mul<uint64_t>(count, sequence.items.size());
  if (!total || !runtime.budget.spend(*total)) return Budget::exhausted();
  std::vector<Value> items;
  items.reserve(*total);
  for (uint64_t i = 0; *total > 0 && i < count; ++i) {
    items.insert(items.end(), sequence.items.begin(), sequence.items.end());
  }
  return make_sequence(runtime, std::move(items), sequence.kind, value.origin());
}

bool is_repeatable(const Value& value) {
  const Sequence* sequence = value.as_sequence();
  return value.is_string() || (sequence != nullptr && sequence->kind <= SequenceKind::kTuple);
}

/// -1, 0 or 1 by bytes: for UTF-8 that is the order of code points, as in Python.
int order_of(const Text& left, const Text& right) {
  return left.bytes().compare(right.bytes());
}

Result<bool> sequences_equal(Runtime& runtime, const Sequence& left, const Sequence& right) {
  if (&left == &right) return true;
  if (left.kind != right.kind || left.items.size() != right.items.size() || left.is_generator()) {
    return false;
  }
  for (size_t i = 0; i < left.items.size(); ++i) {
    QUIRE_TRY(const bool same, equals(runtime, left.items[i], right.items[i]));
    if (!same) return false;
  }
  return true;
}

Result<bool> dicts_equal(Runtime& runtime, const Dict& left, const Dict& right) {
  if (&left == &right) return true;
  if (left.size() != right.size()) return false;
  for (const Dict::Entry& entry : left.entries()) {
    QUIRE_TRY_VOID(canonical_key(runtime, entry.first));
    const Value* other = right.find(entry.first);
    if (other == nullptr) return false;
    QUIRE_TRY(const bool same, equals(runtime, entry.second, *other));
    if (!same) return false;
  }
  return true;
}

Result<bool> numbers_equal(const Value& left, const Value& right) {
  const auto a = left.as_integer();
  const auto b = right.as_integer();
  if (a && b) return *a == *b;
  return *left.as_double() == *right.as_double();
}

Error no_order(const Value& left, const Value& right) {
  return template_error(fmt::format("'<' is not supported between '{}' and '{}'", left.type_name(),
                                    right.type_name()));
}

}  // namespace

Result<void> require_defined(const Value& value) {
  if (const Undefined* undefined = value.as_undefined()) return template_error(undefined->message);
  return {};
}

Result<Value> arithmetic(Runtime& runtime, ArithmeticOp op, const Value& left, const Value& right) {
  if (op == ArithmeticOp::kMod && left.is_string()) {
    return percent_format(runtime, *left.as_text(), right);
  }
  QUIRE_TRY_VOID(require_defined(left));
  QUIRE_TRY_VOID(require_defined(right));
  const Origin origin = joint_origin(left.origin(), right.origin());
  const auto a = left.as_integer();
  const auto b = right.as_integer();
  if (a && b) return integer_arithmetic(op, *a, *b, origin);
  const auto x = left.as_double();
  const auto y = right.as_double();
  if (x && y) return float_arithmetic(op, *x, *y, origin);
  if (op == ArithmeticOp::kAdd) return add_non_numbers(runtime, left, right);
  if (op == ArithmeticOp::kMul && b && is_repeatable(left)) return repeat(runtime, left, *b);
  if (op == ArithmeticOp::kMul && a && is_repeatable(right)) return repeat(runtime, right, *a);
  return unsupported(op, left, right);
}

Result<Value> negative(const Value& value) {
  QUIRE_TRY_VOID(require_defined(value));
  if (const auto number = value.as_integer()) {
    if (*number == INT64_MIN) return too_large();
    return Value(-*number, value.origin());
  }
  if (const auto number = value.as_double()) return Value(-*number, value.origin());
  return template_error(fmt::format("'-' needs a number, not '{}'", value.type_name()));
}

Result<Value> positive(const Value& value) {
  QUIRE_TRY_VOID(require_defined(value));
  if (const auto number = value.as_integer()) return Value(*number, value.origin());
  if (value.is_float()) return value;
  return template_error(fmt::format("'+' needs a number, not '{}'", value.type_name()));
}

Result<bool> equals(Runtime& runtime, const Value& left, const Value& right) {
  if (!runtime.budget.spend(1)) return Budget::exhausted();
  if (left.is_number() && right.is_number()) return numbers_equal(left, right);
  const Text* a = left.as_text();
  const Text* b = right.as_text();
  if (a != nullptr && b != nullptr) {
    if (a->size() != b->size()) return false;
    if (!runtime.budget.spend_bytes(a->size())) return Budget::exhausted();
    return a->bytes() == b->bytes();
  }
  if (left.is_none() || left.is_undefined()) {
    return left.is_none() ? right.is_none() : right.is_undefined();
  }
  if (left.as_sequence() != nullptr && right.as_sequence() != nullptr) {
    return sequences_equal(runtime, *left.as_sequence(), *right.as_sequence());
  }
  if (left.is_dict() && right.is_dict()) {
    return dicts_equal(runtime, *left.as_dict(), *right.as_dict());
  }
  return left.as_object() != nullptr && left.as_object() == right.as_object();
}

Result<bool> less_than(Runtime& runtime, const Value& left, const Value& right) {
  if (!runtime.budget.spend(1)) return Budget::exhausted();
  QUIRE_TRY_VOID(require_defined(left));
  QUIRE_TRY_VOID(require_defined(right));
  const auto a = left.as_integer();
  const auto b = right.as_integer();
  if (a && b) return *a < *b;
  if (left.is_number() && right.is_number()) return *left.as_double() < *right.as_double();
  if (left.is_string() && right.is_string()) {
    if (!runtime.budget.spend_bytes(left.as_text()->size())) return Budget::exhausted();
    return order_of(*left.as_text(), *right.as_text()) < 0;
  }
  const Sequence* first = left.as_sequence();
  const Sequence* second = right.as_sequence();
  const bool ordered = first != nullptr && second != nullptr && first->kind == second->kind &&
                       first->kind <= SequenceKind::kTuple;
  if (!ordered) return no_order(left, right);
  const size_t common = std::min(first->items.size(), second->items.size());
  for (size_t i = 0; i < common; ++i) {
    QUIRE_TRY(const bool same, equals(runtime, first->items[i], second->items[i]));
    if (!same) return less_than(runtime, first->items[i], second->items[i]);
  }
  return first->items.size() < second->items.size();
}

Result<bool> compare(Runtime& runtime, CompareOp op, const Value& left, const Value& right) {
  switch (op) {
    case CompareOp::kEq:
      return equals(runtime, left, right);
    case CompareOp::kNe: {
      QUIRE_TRY(const bool same, equals(runtime, left, right));
      return !same;
    }
    case CompareOp::kLt:
      return less_than(runtime, left, right);
    case CompareOp::kGt:
      return less_than(runtime, right, left);
    case CompareOp::kIn:
      return contains(runtime, right, left);
    case CompareOp::kNotIn: {
      QUIRE_TRY(const bool inside, contains(runtime, right, left));
      return !inside;
    }
    case CompareOp::kLe:
    case CompareOp::kGe:
      break;
  }
  QUIRE_TRY(const bool strict, op == CompareOp::kLe ? less_than(runtime, left, right)
                                                    : less_than(runtime, right, left));
  if (strict) return true;
  return equals(runtime, left, right);
}

Result<bool> contains(Runtime& runtime, Value container, const Value& item) {
  if (const Text* text = container.as_text()) {
    const Text* part = item.as_text();
    if (part == nullptr) {
      return template_error(
          fmt::format("'in <string>' needs a string on its left, not '{}'", item.type_name()));
    }
    if (!runtime.budget.spend_bytes(text->size() + part->size())) return Budget::exhausted();
    return find_bytes(text->bytes(), part->bytes()) != std::string_view::npos;
  }
  if (const Dict* dict = container.as_dict()) {
    QUIRE_TRY_VOID(canonical_key(runtime, item));
    return dict->find(item) != nullptr;
  }
  QUIRE_TRY(const std::vector<Value> items, iterate(runtime, container));
  for (const Value& candidate : items) {
    QUIRE_TRY(const bool same, equals(runtime, candidate, item));
    if (same) return true;
  }
  return false;
}

}  // namespace quire::context::jinja
