// text.h: a string in which every byte knows where it came from.
//
// The strings of templates: immutable once shared, UTF-8, with an origin for each range of bytes,
// so that slices, joins and replacements keep telling message text from template text. Offsets are
// bytes unless a name says characters. A value type; use one from one thread at a time.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quire::context::jinja {

/// Who wrote a value. 0 is the template itself; the caller numbers the rest.
using Origin = uint32_t;
inline constexpr Origin kTemplateOrigin = 0;

/// Bytes up to `end`, from the previous run's end on.
struct OriginRun {
  size_t end;
  Origin origin;
};

class Text {
 public:
  Text() = default;
  explicit Text(std::string bytes, Origin origin = kTemplateOrigin);

  std::string_view bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  /// Ascending, covering every byte, neighbours distinct.
  std::span<const OriginRun> runs() const { return runs_; }
  /// Requires offset < size().
  Origin origin_at(size_t offset) const;
  /// The first byte's origin, or the template's when empty: for what is derived from a whole text.
  Origin origin() const { return runs_.empty() ? kTemplateOrigin : runs_.front().origin; }

  void append(std::string_view bytes, Origin origin);
  void append(const Text& other) { append(other, 0, other.size()); }
  /// Bytes [begin, end) of another text. Requires begin <= end <= other.size().
  void append(const Text& other, size_t begin, size_t end);

  Text slice(size_t begin, size_t end) const;
  bool is_ascii() const;
  size_t num_characters() const;
  /// Start of every character, and the end: num_characters() + 1 offsets.
  std::vector<size_t> character_offsets() const;

 private:
  size_t run_index(size_t offset) const;
  void add_run(size_t length, Origin origin);

  std::string bytes_;
  std::vector<OriginRun> runs_;
};

using TextPtr = std::shared_ptr<const Text>;

}  // namespace quire::context::jinja
