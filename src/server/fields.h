// fields.h: typed members of a request's JSON, each checked, and the first mistake remembered.
//
// A member that is absent or null gives nothing. After a mistake the readers go on and give
// nothing; whoever reads all members looks at error() once at the end. One thread at a time.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/json.h"
#include "server/api_error.h"

namespace quire::server {

class Fields {
 public:
  /// `object` must outlive it; `prefix` stands before the names in errors ("options.").
  explicit Fields(const formats::Json& object, std::string prefix = "");

  /// The member, if it is there and not null.
  const formats::Json* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }

  std::optional<double> number(std::string_view name, double least, double most);
  std::optional<int64_t> integer(std::string_view name, int64_t least, int64_t most);
  std::optional<bool> boolean(std::string_view name);
  std::optional<std::string> text(std::string_view name, size_t most_bytes);
  const formats::Json* object(std::string_view name);
  const formats::Json* array(std::string_view name, size_t most);
  /// One of `choices`.
  std::optional<std::string> choice(std::string_view name,
                                    std::initializer_list<std::string_view> choices);
  /// A mistake if any of these is there.
  void refuse(std::initializer_list<std::string_view> names, std::string_view why);

  void fail(std::string_view name, std::string message);
  void fail(ApiError error);
  bool ok() const { return !error_.has_value(); }
  const std::optional<ApiError>& error() const { return error_; }

 private:
  const formats::Json& object_;
  const std::string prefix_;
  std::optional<ApiError> error_;
};

/// The body as a JSON object: valid UTF-8, nested at most 64 deep.
ApiResult<formats::Json> parse_body(std::string_view body);

/// "a string", "an array": what a value is, for errors.
std::string_view kind_of(const formats::Json& value);

}  // namespace quire::server
