// shard_name.h: the names of a model's parts: model-00002-of-00005.gguf and the like.
//
// Plain functions without state, callable from any thread.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/file_system.h"
#include "base/result.h"

namespace quire::formats {

struct ShardName {
  std::string prefix;  // what stands before "-00002-of-00005"
  std::string suffix;  // what stands after it: ".gguf"
  uint32_t number;     // from 1 to count
  uint32_t count;

  /// The name of another part of the same set.
  std::string part(uint32_t other) const;
};

/// Says which parts of the set are not there.
Result<void> check_no_part_missing(FileSystem& files, const ShardName& name);

/// Reads the pattern -NNNNN-of-NNNNN before `suffix`; nothing if `name` has another form.
std::optional<ShardName> parse_shard_name(std::string_view name, std::string_view suffix);

}  // namespace quire::formats
