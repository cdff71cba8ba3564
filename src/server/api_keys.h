// api_keys.h: who may ask, and whose cache they see.
//
// Keys are compared in a time that does not depend on where they differ. Each key is a tenant of
// its own, named by a hash with a secret that is drawn anew for each process: nothing that leaves
// it can be traced back to a key. What a key's user stores outlives the process under an owner's
// name, a SHA-256 of the key. Immutable; any thread.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"
#include "base/result.h"
#include "server/http.h"

namespace quire::server {

class ApiKeys {
 public:
  /// No keys: everybody is the one tenant "".
  ApiKeys() = default;
  /// `secret` names the tenants.
  ApiKeys(std::vector<std::string> keys, std::string secret);

  bool required() const { return !keys_.empty(); }
  struct Caller {
    std::string tenant;  // whose cache; "" without keys
    std::string owner;   // whose stored conversations; the same in every process
  };
  /// Who the request comes from; nothing if its key is missing or wrong. The key is taken from
  /// "Authorization: Bearer KEY" or "x-api-key: KEY".
  std::optional<Caller> caller_of(const HttpRequest& request) const;

 private:
  std::vector<std::string> keys_;
  std::vector<Caller> callers_;  // one a key
};

/// One key a line; blanks around a key, empty lines and lines that begin with # are left out.
/// kUsage if there is none or one has characters that no header carries.
Result<std::vector<std::string>> read_api_keys(FileSystem& files, const std::string& path);
/// The key that an environment variable holds, checked likewise.
Result<std::vector<std::string>> parse_api_keys(std::string_view text, std::string_view what);

/// 32 bytes from the system's random source.
std::string random_secret();

/// Whether both are the same, in a time that depends on their lengths only.
bool equal_in_constant_time(std::string_view a, std::string_view b);

}  // namespace quire::server
