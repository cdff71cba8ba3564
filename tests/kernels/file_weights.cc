#include "kernels/file_weights.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>
#include <cstring>
#include <random>

namespace quire::kernels {
namespace {

/// IEEE binary16 by its definition, in double.
double half_value(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int mantissa = bits & 1023;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

uint16_t u16(const uint8_t* p) {
  return static_cast<uint16_t>(p[0] | p[1] << 8);
}
float half(const uint8_t* p) {
  return static_cast<float>(half_value(u16(p)));
}

/// A finite half of either sign, now and then a subnormal or zero, else between 2^-10 and 2^-3.
uint16_t random_half(std::mt19937& random) {
  const auto kind = random() % 32;
  const auto sign = (random() & 1) << 15;
  if (kind == 0) return static_cast<uint16_t>(sign);
  if (kind == 1) return static_cast<uint16_t>(sign | random() % 1024);
  return static_cast<uint16_t>(sign | (5 + random() % 7) << 10 | random() % 1024);
}

void put_half(std::mt19937& random, std::byte* at) {
  const uint16_t bits = random_half(random);
  std::memcpy(at, &bits, sizeof bits);
}

float random_float(std::mt19937& random) {
  return std::uniform_real_distribution<float>(-1.0f, 1.0f)(random);
}

void fill_floats(ElementType type, std::vector<std::byte>& stored, std::mt19937& random) {
  const auto bytes = static_cast<size_t>(info(type).block_bytes);
  for (size_t i = 0; i < stored.size(); i += bytes) {
    if (type == ElementType::F16) {
      put_half(random, &stored[i]);
      continue;
    }
    const float x = random_float(random);
    uint32_t bits = std::bit_cast<uint32_t>(x);
    if (type == ElementType::BF16) bits >>= 16;
    std::memcpy(&stored[i], &bits, bytes);
  }
}

/// Byte offsets of d and, or -1, of m within a block.
struct HalvesOf {
  int d;
  int m;
};
HalvesOf halves_of(ElementType type) {
  switch (type) {
    case ElementType::Q6_K:
      return {208, -1};
    case ElementType::Q3_K:
      return {108, -1};
    case ElementType::Q2_K:
      return {80, 82};
    case ElementType::Q8_0:
    case ElementType::Q4_0:
    case ElementType::Q5_0:
    case ElementType::IQ4_NL:
      return {0, -1};
    default:
      return {0, 2};
  }
}

void fill_blocks(ElementType type, std::vector<std::byte>& stored, std::mt19937& random) {
  for (std::byte& b : stored) b = static_cast<std::byte>(random());
  const auto bytes = static_cast<size_t>(info(type).block_bytes);
  for (size_t i = 0; i < stored.size(); i += bytes) {
    const auto [d, m] = halves_of(type);
    put_half(random, &stored[i + static_cast<size_t>(d)]);
    if (m >= 0) put_half(random, &stored[i + static_cast<size_t>(m)]);
  }
}

int nibble(const uint8_t* packed, int64_t byte, bool high) {
  return high ? packed[byte] >> 4 : packed[byte] & 15;
}

int bit(const uint8_t* bits, int64_t index) {
  return bits[index / 8] >> (index % 8) & 1;
}

FileElement of_32(ElementType type, const uint8_t* p, int64_t c) {
  FileElement e;
  e.d = half(p);
  switch (type) {
    case ElementType::Q8_0:
      e.code = std::bit_cast<int8_t>(p[2 + c]);
      return e;
    case ElementType::Q4_0:
      e.code = nibble(p + 2, c % 16, c >= 16);
      e.zero = 8;
      return e;
    case ElementType::Q4_1:
      e.code = nibble(p + 4, c % 16, c >= 16);
      e.m = half(p + 2);
      return e;
    case ElementType::IQ4_NL: {
      constexpr int kValues[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                 1,    13,   25,  38,  53,  69,  89,  113};
      e.code = kValues[nibble(p + 2, c % 16, c >= 16)];
      return e;
    }
    case ElementType::Q5_0:
      e.code = nibble(p + 6, c % 16, c >= 16) + 16 * bit(p + 2, c);
      e.zero = 16;
      return e;
    default:
      e.code = nibble(p + 8, c % 16, c >= 16) + 16 * bit(p + 4, c);
      e.m = half(p + 2);
      return e;
  }
}

/// Scale and minimum j of the eight in the 12 bytes of Q4_K and Q5_K. // get_scale_min_k4 of ggml
void scale_and_min(const uint8_t* q, int64_t j, FileElement& e) {
  if (j < 4) {
    e.scale = q[j] & 63;
    e.min = q[j + 4] & 63;
  } else {
    e.scale = (q[j + 4] & 15) + 16 * (q[j - 4] >> 6);
    e.min = (q[j + 4] >> 4) + 16 * (q[j] >> 6);
  }
}

/// Two bits of column c, which are in byte c % 32 of its half block's 32.
int two_bits(const uint8_t* packed, int64_t c) {
  return packed[32 * (c / 128) + c % 32] >> 2 * (c % 128 / 32) & 3;
}

FileElement of_q2_k(const uint8_t* p, int64_t c) {
  FileElement e;
  e.code = two_bits(p + 16, c);
  e.scale = p[c / 16] & 15;
  e.min = p[c / 16] >> 4;
  e.d = half(p + 80);
  e.m = half(p + 82);
  return e;
}

FileElement of_q3_k(const uint8_t* p, int64_t c) {
  FileElement e;
  e.code = two_bits(p + 32, c) + 4 * (p[c % 32] >> (c / 32) & 1);
  e.zero = 4;
  const int64_t s = c / 16;
  const uint8_t* scales = p + 96;
  e.scale = nibble(scales, s % 8, s >= 8) + 16 * (scales[8 + s % 4] >> 2 * (s / 4) & 3) - 32;
  e.d = half(p + 108);
  return e;
}

FileElement of_256(ElementType type, const uint8_t* p, int64_t c) {
  if (type == ElementType::Q2_K) return of_q2_k(p, c);
  if (type == ElementType::Q3_K) return of_q3_k(p, c);
  FileElement e;
  if (type == ElementType::Q6_K) {
    const int64_t half_block = c / 128;
    const int64_t in_half = c % 128;
    const int low = nibble(p, 64 * half_block + in_half % 64, in_half >= 64);
    const int high = p[128 + 32 * half_block + in_half % 32] >> (2 * (in_half / 32)) & 3;
    e.code = low + 16 * high;
    e.zero = 32;
    e.scale = std::bit_cast<int8_t>(p[192 + c / 16]);
    e.d = half(p + 208);
    return e;
  }
  e.d = half(p);
  e.m = half(p + 2);
  scale_and_min(p + 4, c / 32, e);
  const uint8_t* nibbles = type == ElementType::Q4_K ? p + 16 : p + 48;
  e.code = nibble(nibbles, 32 * (c / 64) + c % 32, c % 64 >= 32);
  if (type == ElementType::Q5_K) e.code += 16 * (p[16 + c % 32] >> (c / 32) & 1);
  return e;
}

}  // namespace

FileWeights::FileWeights(ElementType type, int64_t rows, int64_t cols, uint32_t seed)
    : type_(type), rows_(rows), cols_(cols) {
  std::mt19937 random(seed);
  stored_.resize(*stored_bytes(type, static_cast<uint64_t>(rows * cols)));
  if (is_quantized(type)) {
    fill_blocks(type, stored_, random);
  } else {
    fill_floats(type, stored_, random);
  }
}

FileWeights::FileWeights(ElementType type, int64_t rows, int64_t cols,
                         std::vector<std::byte> stored)
    : type_(type), rows_(rows), cols_(cols), stored_(std::move(stored)) {}

const uint8_t* FileWeights::block(int64_t row, int64_t col) const {
  const int64_t index = (row * cols_ + col) / info(type_).block_elements;
  return reinterpret_cast<const uint8_t*>(stored_.data()) + index * info(type_).block_bytes;
}

FileElement FileWeights::element(int64_t row, int64_t col) const {
  const int64_t in_block = col % info(type_).block_elements;
  return is_k_quant(type_) ? of_256(type_, block(row, col), in_block)
                           : of_32(type_, block(row, col), in_block);
}

float FileWeights::value(int64_t row, int64_t col) const {
  const uint8_t* p = block(row, col);
  if (type_ == ElementType::F16) return half(p);
  if (type_ == ElementType::BF16) return std::bit_cast<float>(uint32_t{u16(p)} << 16);
  if (type_ == ElementType::F32) {
    float x = 0;
    std::memcpy(&x, p, sizeof x);
    return x;
  }
  const FileElement e = element(row, col);
  const float scaled = e.d * static_cast<float>(e.scale) * static_cast<float>(e.code - e.zero);
  if (type_ == ElementType::Q4_1 || type_ == ElementType::Q5_1) return scaled + e.m;
  if (type_ == ElementType::Q2_K || type_ == ElementType::Q4_K || type_ == ElementType::Q5_K) {
    return scaled - e.m * static_cast<float>(e.min);
  }
  return scaled;
}

WeightMatrix::Source FileWeights::source() const {
  return {.type = type_, .rows = rows_, .cols = cols_, .stored = stored_};
}

WeightMatrix FileWeights::pack() const {
  return WeightMatrix::pack(source()).value();
}

int64_t block_columns(ElementType type) {
  return info(type).block_elements;
}

std::string test_name(ElementType type) {
  std::string name(info(type).name);
  name[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
  return name;
}

}  // namespace quire::kernels
