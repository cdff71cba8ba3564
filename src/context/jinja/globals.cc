#include "context/jinja/globals.h"

#include <fmt/format.h>

#include <array>

#include "context/jinja/access.h"
#include "context/jinja/print.h"

namespace quire::context::jinja {
namespace {

/// What Jinja's sandbox allows.
constexpr int64_t kMaxRange = 100'000;

Result<Value> range(Runtime& runtime, const Arguments& arguments) {
  QUIRE_TRY(Bound bound, bind("range", arguments, {"start", "stop", "step"}, 1));
  if (!bound[1]) {
    bound[1] = bound[0];
    bound[0] = Value(int64_t{0});
  }
  QUIRE_TRY(const int64_t start, integer_or(bound[0], 0, "range()'s start"));
  QUIRE_TRY(const int64_t stop, integer_or(bound[1], 0, "range()'s stop"));
  QUIRE_TRY(const int64_t step, integer_or(bound[2], 1, "range()'s step"));
  if (step == 0) return template_error("range()'s step cannot be zero");
  const bool empty = step > 0 ? start >= stop : start <= stop;
  // Unsigned, where the distance of two int64 always fits.
  const uint64_t distance = step > 0 ? static_cast<uint64_t>(stop) - static_cast<uint64_t>(start)
                                     : static_cast<uint64_t>(start) - static_cast<uint64_t>(stop);
  const uint64_t stride =
      step > 0 ? static_cast<uint64_t>(step) : uint64_t{0} - static_cast<uint64_t>(step);
  const uint64_t count = empty ? 0 : (distance - 1) / stride + 1;
  if (count > kMaxRange) {
    return template_error(fmt::format("range() is limited to {} items", kMaxRange));
  }
  std::vector<Value> items;
  for (uint64_t i = 0; i < count; ++i) {
    items.emplace_back(start + static_cast<int64_t>(i) * step);
  }
  QUIRE_TRY(Value value, make_sequence(runtime, std::move(items), SequenceKind::kRange));
  Sequence& sequence = *value.as_sequence();
  sequence.range_start = start;
  sequence.range_stop = stop;
  sequence.range_step = step;
  return value;
}

Result<void> add_pairs(Runtime& runtime, Dict& dict, Value source) {
  if (const Dict* other = source.as_dict()) {
    if (!runtime.budget.spend(8 * other->size())) return Budget::exhausted();
    for (const Dict::Entry& entry : other->entries()) dict.set(entry.first, entry.second);
    return {};
  }
  QUIRE_TRY(std::vector<Value> pairs, iterate(runtime, source));
  for (Value& pair : pairs) {
    QUIRE_TRY(const std::vector<Value> parts, iterate(runtime, pair));
    if (parts.size() != 2) return template_error("dict() needs pairs of a key and a value");
    QUIRE_TRY_VOID(canonical_key(runtime, parts[0]));
    dict.set(parts[0], parts[1]);
  }
  return {};
}

Result<Dict> dict_of(Runtime& runtime, const Arguments& arguments) {
  Dict dict;
  if (arguments.positional.size() > 1) return template_error("dict() takes at most one argument");
  if (!arguments.positional.empty()) {
    QUIRE_TRY_VOID(add_pairs(runtime, dict, arguments.positional.front()));
  }
  for (const auto& [name, value] : arguments.keyword) dict.set(Value::string(name), value);
  if (dict.depth() > kMaxValueDepth) return Budget::too_deep();
  return dict;
}

Result<Value> make_dict_value(Runtime& runtime, const Arguments& arguments) {
  QUIRE_TRY(Dict dict, dict_of(runtime, arguments));
  return make_dict(runtime, std::move(dict));
}

Result<Value> make_namespace(Runtime& runtime, const Arguments& arguments) {
  QUIRE_TRY(const Dict dict, dict_of(runtime, arguments));
  if (!runtime.budget.spend(16 + 8 * dict.size())) return Budget::exhausted();
  auto space = std::make_shared<Namespace>();
  for (const Dict::Entry& entry : dict.entries()) {
    if (!entry.first.is_string()) return template_error("namespace() needs names as keys");
    space->set(entry.first.as_text()->bytes(), entry.second);
  }
  runtime.objects.push_back(space);
  return Value(ObjectPtr(std::move(space)));
}

Result<Value> raise_exception(Runtime& runtime, const Arguments& arguments) {
  QUIRE_TRY(const Bound bound, bind("raise_exception", arguments, {"message"}, 1));
  QUIRE_TRY(const Text message, to_text(runtime, *bound[0]));
  return Error{ErrorCode::kUsage, std::string(message.bytes())};
}

Result<Value> strftime_now(Runtime& runtime, const Arguments& arguments) {
  QUIRE_TRY(const Bound bound, bind("strftime_now", arguments, {"format"}, 1));
  const Text* format = bound[0]->as_text();
  if (format == nullptr) return template_error("strftime_now() needs a format string");
  runtime.used_clock = true;
  return make_text(runtime, Text(format_time(runtime.now, format->bytes()), format->origin()));
}

constexpr std::array<std::string_view, 7> kDays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                   "Thursday", "Friday", "Saturday"};
constexpr std::array<std::string_view, 12> kMonths = {
    "January", "February", "March",     "April",   "May",      "June",
    "July",    "August",   "September", "October", "November", "December"};

struct CivilTime {
  int year, month, day, hour, minute, second, weekday, yearday;  // weekday 0 is Sunday
};

CivilTime civil(std::chrono::sys_seconds time) {
  using namespace std::chrono;
  const auto date = floor<days>(time);
  const year_month_day ymd(date);
  const hh_mm_ss clock(time - date);
  const auto new_year = sys_days(ymd.year() / January / 1);
  return {static_cast<int>(ymd.year()),
          static_cast<int>(static_cast<unsigned>(ymd.month())),
          static_cast<int>(static_cast<unsigned>(ymd.day())),
          static_cast<int>(clock.hours().count()),
          static_cast<int>(clock.minutes().count()),
          static_cast<int>(clock.seconds().count()),
          static_cast<int>(weekday(date).c_encoding()),
          static_cast<int>((date - new_year).count())};
}

/// A directive's number, the width it is padded to and what pads it; width 0 if it is no number.
struct NumberField {
  int value = 0;
  int width = 0;
  char fill = '0';
};

NumberField number_field(char directive, const CivilTime& t) {
  const int hour12 = t.hour % 12 == 0 ? 12 : t.hour % 12;
  switch (directive) {
    case 'd':
      return {t.day, 2};
    case 'e':
      return {t.day, 2, ' '};
    case 'm':
      return {t.month, 2};
    case 'y':
      return {t.year % 100, 2};
    case 'Y':
      return {t.year, 1};
    case 'C':
      return {t.year / 100, 2};
    case 'H':
      return {t.hour, 2};
    case 'k':
      return {t.hour, 2, ' '};
    case 'I':
      return {hour12, 2};
    case 'l':
      return {hour12, 2, ' '};
    case 'M':
      return {t.minute, 2};
    case 'S':
      return {t.second, 2};
    case 'j':
      return {t.yearday + 1, 3};
    case 'w':
      return {t.weekday, 1};
    case 'u':
      return {t.weekday == 0 ? 7 : t.weekday, 1};
    case 'U':
      return {(t.yearday + 7 - t.weekday) / 7, 2};
    case 'W':
      return {(t.yearday + 7 - (t.weekday + 6) % 7) / 7, 2};
    case 'f':
      return {0, 6};
    default:
      return {};
  }
}

/// What a directive stands for in terms of others.
std::string_view composite(char directive) {
  switch (directive) {
    case 'c':
      return "%a %b %e %H:%M:%S %Y";
    case 'x':
    case 'D':
      return "%m/%d/%y";
    case 'X':
    case 'T':
      return "%H:%M:%S";
    case 'F':
      return "%Y-%m-%d";
    case 'R':
      return "%H:%M";
    case 'r':
      return "%I:%M:%S %p";
    default:
      return {};
  }
}

std::string word(char directive, const CivilTime& t) {
  const std::string_view day = kDays[static_cast<size_t>(t.weekday)];
  const std::string_view month = kMonths[static_cast<size_t>(t.month - 1)];
  switch (directive) {
    case 'A':
      return std::string(day);
    case 'a':
      return std::string(day.substr(0, 3));
    case 'B':
      return std::string(month);
    case 'b':
    case 'h':
      return std::string(month.substr(0, 3));
    case 'p':
      return t.hour < 12 ? "AM" : "PM";
    case 'P':
      return t.hour < 12 ? "am" : "pm";
    case 'n':
      return "\n";
    case 't':
      return "\t";
    case '%':
      return "%";
    default:
      return {};
  }
}

void append_time(std::string& out, const CivilTime& t, std::string_view format) {
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      out += format[i];
      continue;
    }
    const bool unpadded = format[i + 1] == '-' && i + 2 < format.size();
    i += unpadded ? 2 : 1;
    const NumberField field = number_field(format[i], t);
    if (field.width > 0) {
      const std::string digits = std::to_string(field.value);
      const size_t width = unpadded ? 0 : static_cast<size_t>(field.width);
      if (digits.size() < width) out.append(width - digits.size(), field.fill);
      out += digits;
    } else if (const std::string_view parts = composite(format[i]); !parts.empty()) {
      append_time(out, t, parts);
    } else {
      out += word(format[i], t);  // %z and %Z of a time without a zone are empty, as in Python
    }
  }
}

}  // namespace

std::string format_time(std::chrono::sys_seconds time, std::string_view format) {
  std::string out;
  append_time(out, civil(time), format);
  return out;
}

std::optional<Value> find_global(std::string_view name) {
  using Body = Result<Value> (*)(Runtime&, const Arguments&);
  static constexpr std::pair<std::string_view, Body> kFunctions[] = {
      {"range", range},
      {"dict", make_dict_value},
      {"namespace", make_namespace},
      {"raise_exception", raise_exception},
      {"strftime_now", strftime_now},
  };
  for (const auto& [known, body] : kFunctions) {
    if (known == name) return Value(std::make_shared<Function>(std::string(name), body));
  }
  return std::nullopt;
}

}  // namespace quire::context::jinja
