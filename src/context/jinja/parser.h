// parser.h: template source to syntax tree, or the line of the first mistake.
//
// The grammar of jinja2 3.1 with loop controls and Hugging Face's {% generation %}; what needs
// other templates (include, import, extends, block) is refused by name. Recursion is bounded and
// fits a 256 KiB stack. Plain function, callable from any thread.
#pragma once
#include <memory>
#include <string_view>

#include "base/result.h"
#include "context/jinja/ast.h"

namespace quire::context::jinja {

Result<std::unique_ptr<const Syntax>> parse_syntax(std::string_view source);

}  // namespace quire::context::jinja
