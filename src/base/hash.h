// hash.h: fast hashes of bytes: 64 bits to find things by, 128 bits to tell them apart.
//
// xxHash's XXH3 (https://xxhash.com): equal on every machine of the same byte order, so that a
// value may be stored. No defence against someone who looks for collisions: whoever finds a thing
// by its hash compares the thing itself. Pure but for DigestBuilder, which one thread uses at a
// time.
#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>

namespace quire {

/// 64 bits of `bytes`, different for each seed.
uint64_t hash64(std::span<const std::byte> bytes, uint64_t seed);

struct Digest {
  uint64_t low = 0;
  uint64_t high = 0;
  friend auto operator<=>(const Digest&, const Digest&) = default;
};

/// The digest of everything added, in order.
class DigestBuilder {
 public:
  DigestBuilder();
  DigestBuilder(DigestBuilder&&) noexcept;
  DigestBuilder& operator=(DigestBuilder&&) noexcept;
  ~DigestBuilder();

  void add(std::span<const std::byte> bytes);
  /// The length first, so that neighbouring texts cannot trade characters.
  void add(std::string_view text);
  /// A number's bytes. Takes no structs: their padding is not defined.
  template <class T>
  requires(std::is_arithmetic_v<T> || std::is_enum_v<T>) void add_number(T value) {
    add(std::as_bytes(std::span<const T, 1>(&value, 1)));
  }

  [[nodiscard]] Digest finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace quire
