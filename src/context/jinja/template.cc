#include "context/jinja/template.h"

#include "context/jinja/interpreter.h"
#include "context/jinja/parser.h"
#include "context/jinja/runtime.h"

namespace quire::context::jinja {

Result<Template> Template::parse(std::string_view source) {
  QUIRE_TRY(std::shared_ptr<const Syntax> syntax, parse_syntax(source));
  return Template(std::move(syntax));
}

Result<Rendered> Template::render(const Variables& variables, std::chrono::sys_seconds now,
                                  const Limits& limits) const {
  Runtime runtime(limits, now);
  Interpreter interpreter(*syntax_, runtime);
  QUIRE_TRY(Text text, interpreter.run(variables));
  return Rendered{std::move(text), runtime.used_clock};
}

}  // namespace quire::context::jinja
