#include "context/jinja/string_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "context/jinja/access.h"
#include "context/jinja/print.h"

namespace quire::context::jinja {
namespace {

class StringFormatter {
 public:
  StringFormatter(Runtime& runtime, const Text& format, const Arguments& arguments)
      : runtime_(runtime), format_(format), arguments_(arguments) {}

  Result<Value> run() {
    const std::string_view bytes = format_.bytes();
    size_t plain = 0;
    for (size_t at = bytes.find_first_of("{}"); at != std::string_view::npos;
         at = bytes.find_first_of("{}", plain)) {
      out_.append(format_, plain, at);
      const bool doubled = at + 1 < bytes.size() && bytes[at + 1] == bytes[at];
      if (doubled) {
        out_.append(format_, at, at + 1);
        plain = at + 2;
        continue;
      }
      const size_t close = bytes.find('}', at);
      if (bytes[at] == '}' || close == std::string_view::npos) {
        return template_error("a format string has a single brace");
      }
      QUIRE_TRY_VOID(append_field(bytes.substr(at + 1, close - at - 1)));
      plain = close + 1;
    }
    out_.append(format_, plain, format_.size());
    return make_text(runtime_, std::move(out_));
  }

 private:
  Result<void> append_field(std::string_view field) {
    if (field.find_first_of("{:") != std::string_view::npos) {
      return template_error("format specifications in str.format are not supported");
    }
    const size_t mark = field.find('!');
    const std::string_view conversion =
        mark == std::string_view::npos ? "s" : field.substr(mark + 1);
    QUIRE_TRY(const Value value, resolve(field.substr(0, mark)));
    if (conversion == "s") return append_str(runtime_, out_, value);
    if (conversion == "r") return append_repr(runtime_, out_, value);
    return template_error(fmt::format("unknown conversion '{}' in a format string", conversion));
  }

  Result<Value> resolve(std::string_view path) {
    const size_t name_end = std::min(path.find_first_of(".["), path.size());
    QUIRE_TRY(Value value, argument(path.substr(0, name_end)));
    path.remove_prefix(name_end);
    while (!path.empty()) {
      const bool is_item = path.front() == '[';
      const size_t end =
          is_item ? path.find(']') : std::min(path.find_first_of(".[", 1), path.size());
      if (end == std::string_view::npos) return template_error("a format field misses ']'");
      const Value key = Value::string(std::string(path.substr(1, end - 1)));
      if (is_item) {
        QUIRE_TRY(value, get_path(runtime_, std::move(value), key));
      } else {
        QUIRE_TRY(value, get_attribute(runtime_, value, key.as_text()->bytes()));
      }
      path.remove_prefix(is_item ? end + 1 : end);
    }
    return value;
  }

  Result<Value> argument(std::string_view name) {
    size_t index = num_automatic_;
    if (name.empty()) {
      ++num_automatic_;
    } else if (std::from_chars(name.data(), name.data() + name.size(), index).ec != std::errc()) {
      for (const auto& [key, value] : arguments_.keyword) {
        if (key == name) return value;
      }
      return template_error(fmt::format("the format misses {}", quoted(name)));
    }
    numbers_by_hand_ = numbers_by_hand_ || !name.empty();
    if (numbers_by_hand_ && num_automatic_ > 0) {
      return template_error("a format string must number all its fields or none");
    }
    if (index < arguments_.positional.size()) return arguments_.positional[index];
    return template_error("the format string asks for more arguments than it gets");
  }

  Runtime& runtime_;
  const Text& format_;
  const Arguments& arguments_;
  size_t num_automatic_ = 0;  // fields {}
  bool numbers_by_hand_ = false;
  Text out_;
};

}  // namespace

Result<Value> format_string(Runtime& runtime, const Text& format, const Arguments& arguments) {
  return StringFormatter(runtime, format, arguments).run();
}

}  // namespace quire::context::jinja
