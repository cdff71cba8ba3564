#include "formats/safetensors_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <numeric>
#include <optional>
#include <string_view>

#include "base/checked_math.h"
#include "base/utf8.h"
#include "formats/byte_reader.h"
#include "formats/json_cursor.h"
#include "formats/printable.h"

namespace quire::formats {
namespace {

// Layout of a file:
//
//   u64 header length, little-endian | header: JSON, padded with spaces | data
//
//   {"__metadata__": {"format": "pt"},
//    "model.norm.weight": {"dtype": "F32", "shape": [64], "data_offsets": [begin, end]}, ...}
//
// Offsets count from the start of the data; sorted by them, the tensors follow each other without a
// gap from 0 to the end of the file.

constexpr size_t kMaxDims = 16;

struct Dtype {
  std::string_view name;
  uint32_t bits;
  std::optional<ElementType> type;
};

constexpr Dtype kDtypes[] = {
    {"F32", 32, ElementType::F32},    {"F16", 16, ElementType::F16},
    {"BF16", 16, ElementType::BF16},  {"F64", 64, std::nullopt},
    {"I64", 64, std::nullopt},        {"U64", 64, std::nullopt},
    {"I32", 32, std::nullopt},        {"U32", 32, std::nullopt},
    {"I16", 16, std::nullopt},        {"U16", 16, std::nullopt},
    {"I8", 8, std::nullopt},          {"U8", 8, std::nullopt},
    {"BOOL", 8, std::nullopt},        {"C64", 64, std::nullopt},
    {"F8_E4M3", 8, std::nullopt},     {"F8_E5M2", 8, std::nullopt},
    {"F8_E8M0", 8, std::nullopt},     {"F8_E4M3FNUZ", 8, std::nullopt},
    {"F8_E5M2FNUZ", 8, std::nullopt}, {"F6_E2M3", 6, std::nullopt},
    {"F6_E3M2", 6, std::nullopt},     {"F4", 4, std::nullopt},
};

struct DataRange {
  uint64_t begin;
  uint64_t end;
  friend auto operator<=>(const DataRange&, const DataRange&) = default;
};

class Parser {
 public:
  Parser(std::span<const std::byte> bytes, const std::string& path) : bytes_(bytes), path_(path) {}

  Result<std::vector<TensorInfo>> parse() {
    QUIRE_TRY(const std::string_view header, take_header());
    QUIRE_TRY_VOID(read_header(header));
    QUIRE_TRY_VOID(check_ranges_tile_the_data());
    for (size_t i = 0; i < tensors_.size(); ++i) {
      tensors_[i].bytes = data_.subspan(ranges_[i].begin, tensors_[i].num_bytes);
    }
    return std::move(tensors_);
  }

 private:
  template <class... Args>
  Error bad(fmt::format_string<Args...> format, Args&&... args) const {
    return {ErrorCode::kBadFile, path_ + ": " + fmt::format(format, std::forward<Args>(args)...)};
  }

  /// The header's text; sets data_ to what follows it.
  Result<std::string_view> take_header() {
    ByteReader reader(bytes_);
    const auto length = reader.read<uint64_t>();
    if (!length) return bad("the file is too short to be a safetensors file");
    if (*length > kMaxSafetensorsHeaderBytes) {
      return bad("the header claims {} bytes, but at most {} are allowed", *length,
                 kMaxSafetensorsHeaderBytes);
    }
    const auto header = reader.take(*length);
    if (!header) {
      return bad(
          "the file is damaged or incomplete: its header claims {} bytes, but only {} are "
          "left",
          *length, reader.remaining());
    }
    data_ = bytes_.subspan(reader.position());
    const std::string_view text(reinterpret_cast<const char*>(header->data()), header->size());
    if (!text.starts_with('{')) return bad("the header is no JSON object");
    if (!utf8_is_valid(text)) return bad("the header is not valid UTF-8");
    return text;
  }

  Result<void> read_header(std::string_view text) {
    JsonCursor cursor(text);
    bool metadata_seen = false;
    const auto read_member = [&](std::string name) -> Result<void> {
      if (name != "__metadata__") return read_tensor(cursor, std::move(name));
      if (metadata_seen) return bad("__metadata__ stands twice in the header");
      metadata_seen = true;
      return read_metadata(cursor);
    };
    QUIRE_TRY_VOID(read_object(cursor, "the header", read_member));
    if (!cursor.at_end()) return bad("the header goes on after its JSON object ends");
    return {};
  }

  /// Calls `read_member(name)` with the cursor before each member's value.
  template <class ReadMember>
  Result<void> read_object(JsonCursor& cursor, std::string_view what, ReadMember read_member) {
    if (!cursor.take('{')) return bad("{} is no JSON object", what);
    if (cursor.take('}')) return {};
    do {
      auto name = cursor.take_string();
      if (!name || !cursor.take(':')) return malformed(cursor);
      QUIRE_TRY_VOID(read_member(std::move(*name)));
    } while (cursor.take(','));
    if (!cursor.take('}')) return malformed(cursor);
    return {};
  }

  Error malformed(const JsonCursor& cursor) const {
    return bad("the header is no valid JSON at its byte {}", cursor.position());
  }

  /// Free text that Quire does not use; still it must be what the format says.
  Result<void> read_metadata(JsonCursor& cursor) {
    return read_object(cursor, "__metadata__", [&](const std::string& name) -> Result<void> {
      if (cursor.take_string()) return {};
      return bad("{} of __metadata__ is no string", printable(name));
    });
  }

  Result<void> read_tensor(JsonCursor& cursor, std::string name) {
    if (tensors_.size() == kMaxSafetensors) {
      return bad("the header lists more than {} tensors", kMaxSafetensors);
    }
    const std::string shown = "tensor " + printable(name);
    std::optional<std::string> dtype;
    std::optional<std::vector<int64_t>> shape;
    std::optional<DataRange> range;
    const auto read_field = [&](const std::string& field) -> Result<void> {
      if (field == "dtype" && !dtype) {
        dtype = cursor.take_string();
        if (!dtype) return bad("the dtype of {} is no string", shown);
      } else if (field == "shape" && !shape) {
        QUIRE_TRY(shape, read_shape(cursor, shown));
      } else if (field == "data_offsets" && !range) {
        QUIRE_TRY(range, read_range(cursor, shown));
      } else {
        return bad("{} has an unknown or repeated field {}", shown, printable(field));
      }
      return {};
    };
    QUIRE_TRY_VOID(read_object(cursor, shown, read_field));
    if (!dtype || !shape || !range) return bad("{} lacks dtype, shape or data_offsets", shown);

    TensorInfo tensor;
    tensor.name = std::move(name);
    tensor.shape = std::move(*shape);
    tensor.num_bytes = range->end - range->begin;
    QUIRE_TRY_VOID(set_type(tensor, *dtype));
    tensors_.push_back(std::move(tensor));
    ranges_.push_back(*range);
    return {};
  }

  Result<std::vector<int64_t>> read_shape(JsonCursor& cursor, const std::string& shown) {
    std::vector<int64_t> shape;
    std::optional<int64_t> elements = 1;
    if (!cursor.take('[')) return bad("the shape of {} is no array", shown);
    if (cursor.take(']')) return shape;
    do {
      const auto value = cursor.take_unsigned();
      const auto dim = value ? checked_cast<int64_t>(*value) : std::nullopt;
      if (dim && elements) elements = checked_mul<int64_t>(*elements, *dim);
      if (!dim || !elements) return bad("the shape of {} is impossible", shown);
      if (shape.size() == kMaxDims) return bad("{} has more than {} dimensions", shown, kMaxDims);
      shape.push_back(*dim);
    } while (cursor.take(','));
    if (!cursor.take(']')) return malformed(cursor);
    return shape;
  }

  Result<DataRange> read_range(JsonCursor& cursor, const std::string& shown) {
    const bool opened = cursor.take('[');
    const auto begin = opened ? cursor.take_unsigned() : std::nullopt;
    const bool separated = begin && cursor.take(',');
    const auto end = separated ? cursor.take_unsigned() : std::nullopt;
    if (!end || !cursor.take(']')) return bad("the data_offsets of {} are no pair", shown);
    if (*begin > *end || *end > data_.size()) {
      return bad(
          "{} claims bytes {} to {} of the data, but there are {}: the file is damaged or "
          "incomplete",
          shown, *begin, *end, data_.size());
    }
    return DataRange{*begin, *end};
  }

  Result<void> set_type(TensorInfo& tensor, const std::string& dtype) const {
    tensor.type_name = printable(dtype);
    std::ranges::transform(tensor.type_name, tensor.type_name.begin(), [](unsigned char c) {
      return static_cast<char>(c < 0x80 ? std::tolower(c) : c);
    });
    const auto* known = std::ranges::find(kDtypes, dtype, &Dtype::name);
    if (known == std::end(kDtypes)) return {};
    tensor.type = known->type;
    const auto bits =
        checked_mul<uint64_t>(static_cast<uint64_t>(num_elements(tensor)), known->bits);
    if (!bits || *bits % 8 != 0 || *bits / 8 != tensor.num_bytes) {
      return bad("tensor {} has {} bytes, but its shape and dtype {} ask for another number",
                 printable(tensor.name), tensor.num_bytes, dtype);
    }
    return {};
  }

  Result<void> check_ranges_tile_the_data() const {
    std::vector<uint32_t> order(ranges_.size());
    std::iota(order.begin(), order.end(), 0u);
    std::ranges::sort(order, {}, [&](uint32_t i) { return ranges_[i]; });
    uint64_t expected = 0;
    for (const uint32_t i : order) {
      const DataRange& range = ranges_[i];
      if (range.begin != expected) {
        return bad(
            "tensor {} starts at byte {} of the data, but {} was to be expected: tensors "
            "overlap or leave a hole",
            printable(tensors_[i].name), range.begin, expected);
      }
      expected = range.end;
    }
    if (expected != data_.size()) {
      return bad("{} bytes after the last tensor belong to none", data_.size() - expected);
    }
    return {};
  }

  std::span<const std::byte> bytes_;
  std::span<const std::byte> data_;
  const std::string& path_;
  std::vector<TensorInfo> tensors_;
  std::vector<DataRange> ranges_;  // beside tensors_
};

}  // namespace

Result<std::vector<TensorInfo>> parse_safetensors(std::span<const std::byte> bytes,
                                                  const std::string& path) {
  return Parser(bytes, path).parse();
}

}  // namespace quire::formats
