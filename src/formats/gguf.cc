#include "formats/gguf.h"

#include <fmt/format.h>

#include <memory>
#include <utility>
#include <vector>

#include "formats/gguf_parser.h"
#include "formats/printable.h"
#include "formats/shard_name.h"

namespace quire::formats {
namespace {

constexpr std::string_view kSuffix = ".gguf";

struct OpenedPart {
  std::unique_ptr<MappedFile> mapping;
  ParsedGguf content;
};

/// What a file says about the split set it belongs to.
struct SplitPlace {
  uint32_t number = 0;  // from 0
  uint32_t count = 1;
  std::optional<uint64_t> total_tensors;
};

Result<OpenedPart> open_part(FileSystem& files, const std::string& path, OpenMode mode) {
  QUIRE_TRY(std::unique_ptr<MappedFile> mapping, files.map(path));
  if (!GgufFile::has_magic(mapping->bytes())) {
    return Error{ErrorCode::kBadFile, fmt::format("{} is not a GGUF file", path)};
  }
  QUIRE_TRY(ParsedGguf content, parse_gguf(mapping->bytes(), path, mode));
  return OpenedPart{std::move(mapping), std::move(content)};
}

Result<SplitPlace> split_place(const GgufMetadata& metadata, const std::string& path) {
  const auto read = [&]() -> Result<SplitPlace> {
    QUIRE_TRY(const auto count, metadata.get<uint32_t>("split.count"));
    QUIRE_TRY(const auto number, metadata.get<uint32_t>("split.no"));
    QUIRE_TRY(const auto total, metadata.get<uint64_t>("split.tensors.count"));
    const uint32_t parts = count.value_or(0) == 0 ? 1 : *count;
    return SplitPlace{number.value_or(0), parts, total};
  };
  auto place = read();
  if (!place) return Error{place.error().code, path + ": " + place.error().message};
  if (place->number >= place->count) {
    return Error{ErrorCode::kBadFile, fmt::format("{}: split.no is {}, but split.count only {}",
                                                  path, place->number, place->count)};
  }
  return place;
}

/// The name pattern of all parts, given the first part.
Result<ShardName> shard_name(const std::string& first, const SplitPlace& place) {
  const auto name = parse_shard_name(first, kSuffix);
  if (place.number != 0) {
    const bool known = name && name->count == place.count;
    return Error{ErrorCode::kUsage,
                 fmt::format("{} is part {} of {}; open the first part{}", first, place.number + 1,
                             place.count, known ? ", " + name->part(1) : "")};
  }
  if (!name || name->number != 1 || name->count != place.count) {
    return Error{ErrorCode::kBadFile,
                 fmt::format("{} is the first of {} parts, but its name does not end in "
                             "-00001-of-{:05}.gguf, so the others cannot be found",
                             first, place.count, place.count)};
  }
  return *name;
}

Result<void> check_is_part(const OpenedPart& part, const std::string& path, uint32_t number,
                           uint32_t count) {
  QUIRE_TRY(const SplitPlace place, split_place(part.content.metadata, path));
  if (place.number + 1 == number && place.count == count) return {};
  return Error{ErrorCode::kBadFile,
               fmt::format("{} says that it is part {} of {}, but its name says part {} of {}",
                           path, place.number + 1, place.count, number, count)};
}

/// Opens parts 2 and up into `tensors`. Where only metadata is wanted, `missing` says why there are
/// none.
Result<void> add_other_parts(FileSystem& files, const std::string& first, const SplitPlace& place,
                             OpenMode mode, TensorTable& tensors, std::string& missing) {
  QUIRE_TRY(const ShardName name, shard_name(first, place));
  if (auto complete = check_no_part_missing(files, name); !complete) {
    if (mode == OpenMode::kWeights) return complete;
    missing = complete.error().message;
    return {};
  }
  for (uint32_t number = 2; number <= name.count; ++number) {
    const std::string path = name.part(number);
    QUIRE_TRY(OpenedPart part, open_part(files, path, mode));
    QUIRE_TRY_VOID(check_is_part(part, path, number, name.count));
    tensors.add_file(path, std::move(part.mapping), std::move(part.content.tensors));
  }
  const size_t found = tensors.tensors().size();
  if (place.total_tensors && *place.total_tensors != found) {
    return Error{ErrorCode::kBadFile,
                 fmt::format("{}: split.tensors.count is {}, but the parts hold "
                             "{} tensors",
                             first, *place.total_tensors, found)};
  }
  return {};
}

}  // namespace

Result<GgufFile> GgufFile::open(FileSystem& files, const std::string& path, OpenMode mode) {
  QUIRE_TRY(OpenedPart first, open_part(files, path, mode));
  QUIRE_TRY(const SplitPlace place, split_place(first.content.metadata, path));
  GgufFile file;
  file.metadata_ = std::move(first.content.metadata);
  file.tensors_.add_file(path, std::move(first.mapping), std::move(first.content.tensors));
  if (place.count > 1) {
    QUIRE_TRY_VOID(add_other_parts(files, path, place, mode, file.tensors_, file.missing_));
  }
  QUIRE_TRY_VOID(file.tensors_.build_index());
  return file;
}

bool GgufFile::has_magic(std::span<const std::byte> bytes) {
  constexpr std::string_view kMagic = "GGUF";
  return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size())
      .starts_with(kMagic);
}

}  // namespace quire::formats
