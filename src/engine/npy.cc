#include "engine/npy.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <optional>

#include "base/checked_math.h"

namespace quire::engine {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are copied as they are");

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kAlignment = 64;

Error bad(const std::string& path, std::string_view why) {
  return {ErrorCode::kBadFile,
          fmt::format("{} is not a .npy file of float32 [tokens, vocab]: {}", path, why)};
}

/// The header's dictionary and where the numbers begin.
struct Parts {
  std::string_view dictionary;
  size_t data_offset = 0;
};

std::optional<Parts> find_parts(std::string_view bytes) {
  if (!bytes.starts_with(kMagic) || bytes.size() < 12) return std::nullopt;
  const auto major = static_cast<uint8_t>(bytes[6]);
  if (major != 1 && major != 2) return std::nullopt;
  const size_t length_bytes = major == 1 ? 2 : 4;
  size_t length = 0;
  for (size_t i = length_bytes; i-- > 0;) length = length << 8 | static_cast<uint8_t>(bytes[8 + i]);
  const size_t begin = 8 + length_bytes;
  if (!range_fits(begin, length, bytes.size())) return std::nullopt;
  return Parts{bytes.substr(begin, length), begin + length};
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  return text;
}

/// What follows "'key':" in the dictionary.
std::optional<std::string_view> value_of(std::string_view dictionary, std::string_view key) {
  const size_t at = dictionary.find(fmt::format("'{}':", key));
  if (at == std::string_view::npos) return std::nullopt;
  return trimmed(dictionary.substr(at + key.size() + 3));
}

/// "(12, 345)" and nothing else.
std::optional<std::array<int64_t, 2>> parse_shape(std::string_view text) {
  std::array<int64_t, 2> shape{};
  if (!text.starts_with('(')) return std::nullopt;
  text.remove_prefix(1);
  for (size_t i = 0; i < shape.size(); ++i) {
    text = trimmed(text);
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), shape[i]);
    if (parsed.ec != std::errc() || shape[i] < 0) return std::nullopt;
    text = trimmed(text.substr(static_cast<size_t>(parsed.ptr - text.data())));
    const char after = i == 0 ? ',' : ')';
    if (!text.starts_with(after)) return std::nullopt;
    text.remove_prefix(1);
  }
  return shape;
}

}  // namespace

std::string npy_header(int64_t rows, int64_t cols) {
  std::string dictionary =
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, cols);
  const size_t unpadded = kMagic.size() + 4 + dictionary.size() + 1;
  dictionary.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  dictionary += '\n';
  std::string header(kMagic);
  header += '\x01';
  header += '\0';
  header += static_cast<char>(dictionary.size() & 0xff);
  header += static_cast<char>(dictionary.size() >> 8);
  return header + dictionary;
}

Result<NpyMatrix> NpyMatrix::open(FileSystem& files, const std::string& path) {
  NpyMatrix matrix;
  QUIRE_TRY(matrix.file_, files.map(path));
  const std::span<const std::byte> raw = matrix.file_->bytes();
  const std::string_view bytes(reinterpret_cast<const char*>(raw.data()), raw.size());
  const auto parts = find_parts(bytes);
  if (!parts) return bad(path, "its header is damaged");
  const auto type = value_of(parts->dictionary, "descr");
  if (!type || !type->starts_with("'<f4'")) return bad(path, "its numbers are of another type");
  const auto order = value_of(parts->dictionary, "fortran_order");
  if (!order || !order->starts_with("False")) return bad(path, "it is in Fortran order");
  const auto shape_text = value_of(parts->dictionary, "shape");
  const auto shape = shape_text ? parse_shape(*shape_text) : std::nullopt;
  if (!shape) return bad(path, "its shape is not two-dimensional");
  const auto count = checked_mul((*shape)[0], (*shape)[1]);
  const auto wanted = count ? checked_mul<int64_t>(*count, sizeof(float)) : std::nullopt;
  if (!wanted || static_cast<uint64_t>(*wanted) != bytes.size() - parts->data_offset) {
    return bad(path, "its size is not what its shape says");
  }
  matrix.data_offset_ = parts->data_offset;
  matrix.rows_ = (*shape)[0];
  matrix.cols_ = (*shape)[1];
  return matrix;
}

void NpyMatrix::read_row(int64_t row, std::span<float> out) const {
  QUIRE_CHECK(row >= 0 && row < rows_, "a row outside the matrix");
  QUIRE_CHECK_EQ(static_cast<int64_t>(out.size()), cols_);
  const size_t row_bytes = out.size() * sizeof(float);
  const auto bytes = file_->bytes().subspan(data_offset_ + static_cast<size_t>(row) * row_bytes);
  std::memcpy(out.data(), bytes.data(), row_bytes);
}

}  // namespace quire::engine
