// sha256.h: SHA-256 (FIPS 180-4): a digest from which its text cannot be found again.
//
// For names that must not betray what they were made of, such as the owner of an API key's
// conversations. Slower than base/hash.h, which is for finding things. Pure; OpenSSL computes it.
#pragma once
#include <string>
#include <string_view>

namespace quire::server {

/// 64 hexadecimal digits.
std::string sha256_hex(std::string_view text);

}  // namespace quire::server
