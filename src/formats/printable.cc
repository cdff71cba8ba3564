#include "formats/printable.h"

#include "base/utf8.h"

namespace quire::formats {
namespace {

constexpr size_t kLongest = 100;

bool is_control(unsigned char c) {
  return c < 0x20 || c == 0x7F;
}

}  // namespace

std::string printable(std::string_view name) {
  if (name.empty()) return "\"\"";
  const bool cut = name.size() > kLongest;
  std::string_view start = name.substr(0, kLongest);
  if (cut) start.remove_suffix(utf8_incomplete_tail(start));
  std::string out = utf8_sanitized(start);
  for (char& c : out) {
    if (is_control(static_cast<unsigned char>(c))) c = '?';
  }
  if (cut) out += "...";
  return out;
}

}  // namespace quire::formats
