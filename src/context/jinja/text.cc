#include "context/jinja/text.h"

#include <algorithm>

#include "base/check.h"
#include "base/utf8.h"

namespace quire::context::jinja {

Text::Text(std::string bytes, Origin origin) : bytes_(std::move(bytes)) {
  if (!bytes_.empty()) runs_.push_back({bytes_.size(), origin});
}

size_t Text::run_index(size_t offset) const {
  const auto run =
      std::upper_bound(runs_.begin(), runs_.end(), offset,
                       [](size_t value, const OriginRun& row) { return value < row.end; });
  return static_cast<size_t>(run - runs_.begin());
}

Origin Text::origin_at(size_t offset) const {
  QUIRE_CHECK_LT(offset, size());
  return runs_[run_index(offset)].origin;
}

void Text::add_run(size_t length, Origin origin) {
  if (length == 0) return;
  if (!runs_.empty() && runs_.back().origin == origin) {
    runs_.back().end += length;
  } else {
    runs_.push_back({(runs_.empty() ? 0 : runs_.back().end) + length, origin});
  }
}

void Text::append(std::string_view bytes, Origin origin) {
  bytes_ += bytes;
  add_run(bytes.size(), origin);
}

void Text::append(const Text& other, size_t begin, size_t end) {
  QUIRE_CHECK(begin <= end && end <= other.size(), "slice outside the text");
  if (begin == end) return;
  bytes_ += other.bytes().substr(begin, end - begin);
  for (size_t i = other.run_index(begin), at = begin; at < end; ++i) {
    const size_t run_end = std::min(other.runs_[i].end, end);
    add_run(run_end - at, other.runs_[i].origin);
    at = run_end;
  }
}

Text Text::slice(size_t begin, size_t end) const {
  Text out;
  out.append(*this, begin, end);
  return out;
}

bool Text::is_ascii() const {
  return std::all_of(bytes_.begin(), bytes_.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

size_t Text::num_characters() const {
  return static_cast<size_t>(std::count_if(bytes_.begin(), bytes_.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

std::vector<size_t> Text::character_offsets() const {
  std::vector<size_t> offsets;
  offsets.reserve(size() + 1);
  for (size_t i = 0; i < size(); ++i) {
    if ((static_cast<unsigned char>(bytes_[i]) & 0xc0) != 0x80) offsets.push_back(i);
  }
  offsets.push_back(size());
  return offsets;
}

}  // namespace quire::context::jinja
