#include "context/jinja/filters.h"

#include <fmt/format.h>

#include "context/jinja/print.h"
#include "context/jinja/text_ops.h"

namespace quire::context::jinja {
namespace {

Filter find_filter(std::string_view name) {
  const Filter filter = find_text_filter(name);
  return filter != nullptr ? filter : find_sequence_filter(name);
}

}  // namespace

bool is_filter_name(std::string_view name) {
  return find_filter(name) != nullptr;
}

Result<Value> apply_filter(Runtime& runtime, std::string_view name, const Value& input,
                           const Arguments& arguments) {
  if (!runtime.budget.spend(2) || !charge_input(runtime, input)) return Budget::exhausted();
  const Filter filter = find_filter(name);
  if (filter == nullptr) {
    return template_error(fmt::format("there is no filter named {}", quoted(name)));
  }
  return filter(runtime, input, arguments);
}

}  // namespace quire::context::jinja
