#include "base/hash.h"

#include <xxhash.h>

#include <new>

#include "base/check.h"

namespace quire {

struct DigestBuilder::State {
  XXH3_state_t* xxh = XXH3_createState();

  State() {
    if (xxh == nullptr) throw std::bad_alloc();
    QUIRE_CHECK(XXH3_128bits_reset(xxh) == XXH_OK, "a state just made can be reset");
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { XXH3_freeState(xxh); }
};

uint64_t hash64(std::span<const std::byte> bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

DigestBuilder::DigestBuilder() : state_(std::make_unique<State>()) {}
DigestBuilder::DigestBuilder(DigestBuilder&&) noexcept = default;
DigestBuilder& DigestBuilder::operator=(DigestBuilder&&) noexcept = default;
DigestBuilder::~DigestBuilder() = default;

void DigestBuilder::add(std::span<const std::byte> bytes) {
  QUIRE_CHECK(XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size()) == XXH_OK,
              "bytes in memory can be hashed");
}

void DigestBuilder::add(std::string_view text) {
  add_number(static_cast<uint64_t>(text.size()));
  add(std::as_bytes(std::span(text.data(), text.size())));
}

Digest DigestBuilder::finish() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_->xxh);
  return {hash.low64, hash.high64};
}

}  // namespace quire
