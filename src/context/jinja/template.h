// template.h: the Jinja library's front: parse once, render many times.
//
// A template is untrusted: parsing and rendering are bounded in steps, nesting and output, run on a
// 256 KiB stack, and touch nothing but the given variables and clock. Errors carry "line N: ".
// Thread rule: a Template is immutable; any number of threads may render it.
#pragma once
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "context/jinja/budget.h"
#include "context/jinja/value.h"

namespace quire::context::jinja {

struct Syntax;

using Variables = std::vector<std::pair<std::string, Value>>;

struct Rendered {
  Text text;
  bool used_clock = false;
};

class Template {
 public:
  static Result<Template> parse(std::string_view source);

  /// ErrorCode::kUsage when the template called raise_exception, kDoesNotFit when it exceeded the
  /// limits, kUnsupported for any other failure.
  Result<Rendered> render(const Variables& variables, std::chrono::sys_seconds now,
                          const Limits& limits = {}) const;

 private:
  explicit Template(std::shared_ptr<const Syntax> syntax) : syntax_(std::move(syntax)) {}
  std::shared_ptr<const Syntax> syntax_;  // shared: immutable, so copies are cheap
};

}  // namespace quire::context::jinja
