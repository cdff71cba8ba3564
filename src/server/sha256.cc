#include "server/sha256.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>

#include "base/check.h"

namespace quire::server {

std::string sha256_hex(std::string_view text) {
  std::array<unsigned char, 32> digest{};
  const int done =
      EVP_Digest(text.data(), text.size(), digest.data(), nullptr, EVP_sha256(), nullptr);
  QUIRE_CHECK(done == 1, "OpenSSL computes SHA-256");
  std::string hex;
  for (const unsigned char byte : digest) hex += fmt::format("{:02x}", byte);
  return hex;
}

}  // namespace quire::server
