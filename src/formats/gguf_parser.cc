#include "formats/gguf_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>

#include "base/checked_math.h"
#include "formats/byte_reader.h"
#include "formats/ggml_type.h"
#include "formats/printable.h"

namespace quire::formats {
namespace {

// Layout of a file, all little-endian:
//
//   "GGUF" | u32 version | u64 n_tensors | u64 n_keys
//   n_keys    x  string key | u32 type | value
//   n_tensors x  string name | u32 n_dims | u64 dims[n_dims], fastest first | u32 type | u64 offset
//   padding to general.alignment
//   data: each tensor at its offset from here
//
// A string is u64 length | bytes; an array is u32 element type | u64 count | elements.

constexpr uint64_t kMagicBytes = 4;
constexpr uint64_t kMaxNameBytes = 65'535;  // the specification's limit for keys
constexpr uint32_t kMaxDims = 4;
constexpr int kMaxArrayNesting = 4;
constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kSmallestKeyBytes = 8 + 4 + 1;             // empty key, type, a byte
constexpr uint64_t kSmallestTensorBytes = 8 + 4 + 8 + 4 + 8;  // empty name, one dimension

using Bytes = std::span<const std::byte>;

std::string_view as_text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Bytes of one value of a fixed-size type; nothing for strings and arrays.
std::optional<uint64_t> scalar_bytes(GgufType type) {
  switch (type) {
    case GgufType::kUint8:
    case GgufType::kInt8:
    case GgufType::kBool:
      return 1;
    case GgufType::kUint16:
    case GgufType::kInt16:
      return 2;
    case GgufType::kUint32:
    case GgufType::kInt32:
    case GgufType::kFloat32:
      return 4;
    case GgufType::kUint64:
    case GgufType::kInt64:
    case GgufType::kFloat64:
      return 8;
    case GgufType::kString:
    case GgufType::kArray:
      break;
  }
  return std::nullopt;
}

class Parser {
 public:
  Parser(Bytes bytes, const std::string& path, OpenMode mode)
      : bytes_(bytes), reader_(bytes), path_(path), mode_(mode) {}

  Result<ParsedGguf> parse() {
    QUIRE_TRY_VOID(read_header());
    QUIRE_TRY(GgufMetadata metadata, read_metadata());
    QUIRE_TRY(const uint64_t alignment, read_alignment(metadata));
    // num_tensors_ was held against the file's size by read_header().
    tensors_.reserve(num_tensors_);
    offsets_.reserve(num_tensors_);
    for (uint64_t i = 0; i < num_tensors_; ++i) QUIRE_TRY_VOID(read_tensor(i, alignment));
    QUIRE_TRY_VOID(check_overlaps());
    QUIRE_TRY_VOID(place(alignment));
    return ParsedGguf{std::move(metadata), std::move(tensors_)};
  }

 private:
  template <class... Args>
  Error bad(fmt::format_string<Args...> format, Args&&... args) const {
    return {ErrorCode::kBadFile, path_ + ": " + fmt::format(format, std::forward<Args>(args)...)};
  }

  Error cut_off(std::string_view where) const {
    return bad("the file is damaged or incomplete: it ends within {}", where);
  }

  Result<void> read_header() {
    (void)reader_.take(kMagicBytes);  // the caller looked at it
    const auto version = reader_.read<uint32_t>();
    if (!version) return cut_off("its header");
    QUIRE_TRY_VOID(check_version(*version));
    const auto num_tensors = reader_.read<uint64_t>();
    const auto num_keys = reader_.read<uint64_t>();
    if (!num_tensors || !num_keys) return cut_off("its header");
    QUIRE_TRY_VOID(check_count("metadata keys", *num_keys, kMaxGgufKeys, kSmallestKeyBytes));
    QUIRE_TRY_VOID(check_count("tensors", *num_tensors, kMaxGgufTensors, kSmallestTensorBytes));
    num_keys_ = *num_keys;
    num_tensors_ = *num_tensors;
    return {};
  }

  Result<void> check_version(uint32_t version) const {
    if (version == 2 || version == 3) return {};
    // A big-endian file's small version number reads as a large one here.
    const bool big_endian = version != 0 && (version & 0xFFFFu) == 0;
    const std::string why =
        big_endian ? "is big-endian; convert it on a little-endian machine"
        : version == 1
            ? "has GGUF version 1, which is obsolete; convert the model again"
            : fmt::format("has GGUF version {}, but Quire reads versions 2 and 3", version);
    return Error{ErrorCode::kUnsupported, fmt::format("{} {}", path_, why)};
  }

  Result<void> check_count(std::string_view what, uint64_t count, uint64_t most,
                           uint64_t smallest_bytes) const {
    if (count > most) {
      return bad("the header claims {} {}, but at most {} are accepted", count, what, most);
    }
    if (count > reader_.remaining() / smallest_bytes) {
      return bad(
          "the file is damaged or incomplete: its header claims {} {}, more than its {} "
          "bytes can hold",
          count, what, bytes_.size());
    }
    return {};
  }

  Result<GgufMetadata> read_metadata() {
    std::vector<GgufValue> values;
    values.reserve(num_keys_);
    for (uint64_t i = 0; i < num_keys_; ++i) {
      QUIRE_TRY(GgufValue value, read_key_value(i));
      values.push_back(value);
    }
    auto metadata = GgufMetadata::create(std::move(values));
    if (!metadata) return bad("{}", metadata.error().message);
    return metadata;
  }

  Result<GgufValue> read_key_value(uint64_t index) {
    GgufValue value;
    QUIRE_TRY(value.key, read_name("metadata key", index));
    QUIRE_TRY(value.type, read_type(value.key));
    value.element_type = value.type;
    if (value.type == GgufType::kArray) {
      QUIRE_TRY_VOID(read_array(value));
    } else if (value.type == GgufType::kString) {
      const auto length = reader_.read<uint64_t>();
      const auto text = length ? reader_.take(*length) : std::nullopt;
      if (!text) return cut_off_in_value(value.key);
      value.payload = *text;
    } else {
      const auto raw = reader_.take(*scalar_bytes(value.type));
      if (!raw) return cut_off_in_value(value.key);
      value.payload = *raw;
      QUIRE_TRY_VOID(check_bools(value.key, value.type, *raw));
    }
    return value;
  }

  Error cut_off_in_value(std::string_view key) const {
    return cut_off(fmt::format("the value of key {}", printable(key)));
  }

  Error cut_off_in_tensor(std::string_view tensor) const {
    return cut_off(fmt::format("the description of tensor {}", printable(tensor)));
  }

  Result<std::string_view> read_name(std::string_view what, uint64_t index) {
    const auto length = reader_.read<uint64_t>();
    if (length && *length > kMaxNameBytes) {
      return bad("the name of {} {} is {} bytes long, but at most {} are allowed", what, index,
                 *length, kMaxNameBytes);
    }
    const auto text = length ? reader_.take(*length) : std::nullopt;
    if (!text) return cut_off(fmt::format("the name of {} {}", what, index));
    if (text->empty()) return bad("{} {} has no name", what, index);
    return as_text(*text);
  }

  Result<GgufType> read_type(std::string_view key) {
    const auto type = reader_.read<uint32_t>();
    if (!type) return cut_off_in_value(key);
    if (*type > static_cast<uint32_t>(GgufType::kFloat64)) {
      return bad("key {} has the unknown value type {}", printable(key), *type);
    }
    return static_cast<GgufType>(*type);
  }

  Result<void> read_array(GgufValue& value) {
    QUIRE_TRY(value.element_type, read_type(value.key));
    const auto count = reader_.read<uint64_t>();
    if (!count) return cut_off_in_value(value.key);
    value.count = *count;
    const uint64_t begin = reader_.position();
    QUIRE_TRY_VOID(skip_elements(value.key, value.element_type, value.count, 1));
    value.payload = bytes_.subspan(begin, reader_.position() - begin);
    return {};
  }

  /// Moves behind an array's elements, checking each. Recursion ends at kMaxArrayNesting.
  Result<void> skip_elements(std::string_view key, GgufType type, uint64_t count, int nesting) {
    if (const auto size = scalar_bytes(type)) {
      const auto total = checked_mul<uint64_t>(count, *size);
      const auto raw = total ? reader_.take(*total) : std::nullopt;
      if (!raw) return array_too_long(key, type, count);
      return check_bools(key, type, *raw);
    }
    // Each element takes 8 bytes or more, so the loops end long before a huge count does.
    for (uint64_t i = 0; i < count; ++i) {
      if (type == GgufType::kString) {
        const auto length = reader_.read<uint64_t>();
        if (!length || !reader_.take(*length)) return array_too_long(key, type, count);
      } else {
        if (nesting == kMaxArrayNesting) {
          return bad("key {} nests arrays deeper than {} levels", printable(key), kMaxArrayNesting);
        }
        QUIRE_TRY(const GgufType inner, read_type(key));
        const auto inner_count = reader_.read<uint64_t>();
        if (!inner_count) return cut_off_in_value(key);
        QUIRE_TRY_VOID(skip_elements(key, inner, *inner_count, nesting + 1));
      }
    }
    return {};
  }

  Error array_too_long(std::string_view key, GgufType type, uint64_t count) const {
    return bad(
        "the file is damaged or incomplete: the array of {} {}s of key {} does not end "
        "within it",
        count, name(type), printable(key));
  }

  Result<void> check_bools(std::string_view key, GgufType type, Bytes raw) const {
    const auto invalid = [](std::byte b) { return b > std::byte{1}; };
    if (type != GgufType::kBool || std::ranges::none_of(raw, invalid)) return {};
    return bad("key {} holds a bool that is neither 0 nor 1", printable(key));
  }

  Result<uint64_t> read_alignment(const GgufMetadata& metadata) const {
    auto stated = metadata.get<uint64_t>("general.alignment");
    if (!stated) return bad("{}", stated.error().message);
    const uint64_t alignment = stated->value_or(kDefaultAlignment);
    // The specification demands a multiple of 8; ggml demands a power of two.
    if (alignment < 8 || !std::has_single_bit(alignment)) {
      return bad("general.alignment is {}, but it must be a power of two of at least 8", alignment);
    }
    return alignment;
  }

  Result<void> read_tensor(uint64_t index, uint64_t alignment) {
    TensorInfo tensor;
    QUIRE_TRY(const std::string_view name, read_name("tensor", index));
    tensor.name = name;
    QUIRE_TRY(tensor.shape, read_shape(name));
    const auto type = reader_.read<uint32_t>();
    const auto offset = reader_.read<uint64_t>();
    if (!type || !offset) return cut_off_in_tensor(name);
    if (*offset % alignment != 0) {
      return bad("tensor {} starts at offset {}, which is no multiple of the alignment {}",
                 printable(name), *offset, alignment);
    }
    QUIRE_TRY_VOID(set_type(tensor, *type));
    tensors_.push_back(std::move(tensor));
    offsets_.push_back(*offset);
    return {};
  }

  /// Slowest dimension first, while the file has it the other way round.
  Result<std::vector<int64_t>> read_shape(std::string_view tensor) {
    const auto num_dims = reader_.read<uint32_t>();
    if (!num_dims) return cut_off_in_tensor(tensor);
    if (*num_dims == 0 || *num_dims > kMaxDims) {
      return bad("tensor {} claims {} dimensions, but 1 to {} are possible", printable(tensor),
                 *num_dims, kMaxDims);
    }
    std::vector<int64_t> shape(*num_dims);
    std::optional<int64_t> elements = 1;
    for (size_t i = shape.size(); i-- > 0;) {
      const auto dim = reader_.read<uint64_t>();
      if (!dim) return cut_off_in_tensor(tensor);
      const auto fits = checked_cast<int64_t>(*dim);
      if (fits && *fits > 0 && elements) elements = checked_mul<int64_t>(*elements, *fits);
      if (!fits || *fits == 0 || !elements) {
        return bad("tensor {} claims a dimension of {}, which is impossible", printable(tensor),
                   *dim);
      }
      shape[i] = *fits;
    }
    return shape;
  }

  Result<void> set_type(TensorInfo& tensor, uint32_t id) const {
    const GgmlType* type = find_ggml_type(id);
    if (type == nullptr || type->block_elements == 0) {
      tensor.type_name = type != nullptr ? std::string(type->name) : fmt::format("type {}", id);
      return {};
    }
    tensor.type = type->type;
    tensor.type_name = type->name;
    const int64_t columns = tensor.shape.back();
    if (columns % type->block_elements != 0) {
      return bad("tensor {} has rows of {} numbers, but {} stores them in blocks of {}",
                 printable(tensor.name), columns, type->name, type->block_elements);
    }
    const auto blocks = static_cast<uint64_t>(num_elements(tensor)) / type->block_elements;
    const auto size = checked_mul<uint64_t>(blocks, type->block_bytes);
    if (!size) {
      return bad("tensor {} claims more bytes than a file can have", printable(tensor.name));
    }
    tensor.num_bytes = *size;
    return {};
  }

  /// Of a type of unknown size, at least the first byte must be there.
  static uint64_t least_bytes(const TensorInfo& tensor) {
    return std::max<uint64_t>(tensor.num_bytes, 1);
  }

  Result<void> check_overlaps() const {
    std::vector<uint32_t> order(tensors_.size());
    std::iota(order.begin(), order.end(), 0u);
    std::ranges::sort(order, {}, [&](uint32_t i) { return offsets_[i]; });
    for (size_t i = 1; i < order.size(); ++i) {
      const TensorInfo& before = tensors_[order[i - 1]];
      const uint64_t gap = offsets_[order[i]] - offsets_[order[i - 1]];
      if (gap < least_bytes(before)) {
        return bad("tensors {} and {} overlap", printable(before.name),
                   printable(tensors_[order[i]].name));
      }
    }
    return {};
  }

  Result<void> place(uint64_t alignment) {
    const auto data_begin = checked_align_up<uint64_t>(reader_.position(), alignment);
    for (size_t i = 0; i < tensors_.size(); ++i) {
      TensorInfo& tensor = tensors_[i];
      const auto begin =
          data_begin ? checked_add<uint64_t>(*data_begin, offsets_[i]) : std::nullopt;
      if (begin && range_fits(*begin, least_bytes(tensor), bytes_.size())) {
        tensor.bytes = bytes_.subspan(*begin, tensor.num_bytes);
      } else if (mode_ == OpenMode::kWeights) {
        return bad(
            "the file is damaged or incomplete: tensor {} lies at offset {} of the data with "
            "{} bytes, but the file has only {} bytes in all",
            printable(tensor.name), offsets_[i], tensor.num_bytes, bytes_.size());
      }
    }
    return {};
  }

  Bytes bytes_;
  ByteReader reader_;
  const std::string& path_;
  OpenMode mode_;
  uint64_t num_keys_ = 0;
  uint64_t num_tensors_ = 0;
  std::vector<TensorInfo> tensors_;
  std::vector<uint64_t> offsets_;  // beside tensors_, from the start of the data
};

}  // namespace

Result<ParsedGguf> parse_gguf(std::span<const std::byte> bytes, const std::string& path,
                              OpenMode mode) {
  return Parser(bytes, path, mode).parse();
}

}  // namespace quire::formats
