#include "kernels/file_block.h"

#include <cstring>

#include "base/check.h"

namespace quire::kernels {
namespace {

uint16_t read_u16(const uint8_t* p) {
  uint16_t value = 0;
  std::memcpy(&value, p, sizeof value);
  return value;
}

// Eight codes at once, a byte each: loading a model reads each of its weights so.
uint64_t read_eight(const uint8_t* p) {
  uint64_t eight = 0;
  std::memcpy(&eight, p, sizeof eight);
  return eight;
}

void write_eight(uint64_t eight, uint8_t* p) {
  std::memcpy(p, &eight, sizeof eight);
}

constexpr uint64_t each_byte(uint64_t value) {
  return value * 0x0101010101010101;
}

/// Byte j of 16 holds columns j (low nibble) and j + 16.
void read_nibbles_32(const uint8_t* packed, uint8_t* codes) {
  for (int j = 0; j < 16; j += 8) {
    const uint64_t both = read_eight(packed + j);
    write_eight(both & each_byte(15), codes + j);
    write_eight(both >> 4 & each_byte(15), codes + j + 16);
  }
}

/// Bit j of the 32 is the fifth bit of column j.
void add_fifth_bits_32(const uint8_t* bits, uint8_t* codes) {
  for (int j = 0; j < 32; j += 8) {
    // Byte k keeps bit k only; what is not zero reaches the byte's top bit, and from there the
    // fifth.
    const uint64_t alone = each_byte(bits[j / 8]) & 0x8040201008040201;
    const uint64_t fifth = ((alone + each_byte(0x7f)) & each_byte(0x80)) >> 3;
    write_eight(read_eight(codes + j) | fifth, codes + j);
  }
}

/// 64 columns a run: byte j of 32 holds columns j (low nibble) and j + 32.
void read_nibbles_256(const uint8_t* packed, uint8_t* codes) {
  for (int run = 0; run < 4; ++run) {
    for (int j = 0; j < 32; j += 8) {
      const uint64_t both = read_eight(packed + 32 * run + j);
      write_eight(both & each_byte(15), codes + 64 * run + j);
      write_eight(both >> 4 & each_byte(15), codes + 64 * run + 32 + j);
    }
  }
}

/// Bit s of byte j is the fifth bit of column 32 s + j.
void add_fifth_bits_256(const uint8_t* bits, uint8_t* codes) {
  for (int s = 0; s < 8; ++s) {
    for (int j = 0; j < 32; ++j) {
      uint8_t& code = codes[32 * s + j];
      code = static_cast<uint8_t>(code | (bits[j] >> s & 1) << 4);
    }
  }
}

/// Eight 6-bit scales and eight 6-bit minimums in 12 bytes: the last four of each have their low
/// four bits in bytes 8..11 and their top two bits on top of the first four.
void read_scales_and_mins(const uint8_t* packed, FileBlock& block) {
  for (int s = 0; s < 4; ++s) {
    block.scales[s] = packed[s] & 63;
    block.mins[s] = packed[s + 4] & 63;
    block.scales[s + 4] = static_cast<uint8_t>((packed[s + 8] & 15) | (packed[s] >> 6) << 4);
    block.mins[s + 4] = static_cast<uint8_t>((packed[s + 8] >> 4) | (packed[s + 4] >> 6) << 4);
  }
}

/// 128 columns a run: bits 2s, 2s + 1 of byte j of 32 are column 32 s + j.
void read_two_bits_256(const uint8_t* packed, uint8_t* codes) {
  for (int run = 0; run < 2; ++run) {
    for (int s = 0; s < 4; ++s) {
      for (int j = 0; j < 32; ++j) {
        codes[128 * run + 32 * s + j] = packed[32 * run + j] >> 2 * s & 3;
      }
    }
  }
}

void read_q2_k(const uint8_t* p, FileBlock& block) {
  for (int s = 0; s < 16; ++s) {
    block.scales[s] = p[s] & 15;
    block.mins[s] = p[s] >> 4;
  }
  read_two_bits_256(p + 16, block.codes);
  block.d = read_u16(p + 80);
  block.m = read_u16(p + 82);
}

/// Sixteen 6-bit scales in 12 bytes: low nibbles of the first eight, then high ones; bits 2i and
/// 2i + 1 of byte 8 + j are on top of scale 4 i + j.
void read_scales_of_q3_k(const uint8_t* packed, uint8_t* scales) {
  for (int s = 0; s < 16; ++s) {
    const int low = s < 8 ? packed[s] & 15 : packed[s - 8] >> 4;
    const int high = packed[8 + s % 4] >> 2 * (s / 4) & 3;
    scales[s] = static_cast<uint8_t>((low | high << 4) - 32);
  }
}

void read_q3_k(const uint8_t* p, FileBlock& block) {
  read_two_bits_256(p + 32, block.codes);
  for (int s = 0; s < 8; ++s) {
    for (int j = 0; j < 32; ++j) {
      uint8_t& code = block.codes[32 * s + j];
      code = static_cast<uint8_t>(code | (p[j] >> s & 1) << 2);
    }
  }
  read_scales_of_q3_k(p + 96, block.scales);
  block.d = read_u16(p + 108);
}

void read_q6_k(const uint8_t* p, FileBlock& block) {
  const uint8_t* low = p;
  const uint8_t* high = p + 128;
  for (int half = 0; half < 2; ++half, low += 64, high += 32) {
    uint8_t* codes = block.codes + 128 * half;
    for (int j = 0; j < 32; ++j) {
      codes[j] = static_cast<uint8_t>((low[j] & 15) | (high[j] & 3) << 4);
      codes[j + 32] = static_cast<uint8_t>((low[j + 32] & 15) | (high[j] >> 2 & 3) << 4);
      codes[j + 64] = static_cast<uint8_t>((low[j] >> 4) | (high[j] >> 4 & 3) << 4);
      codes[j + 96] = static_cast<uint8_t>((low[j + 32] >> 4) | (high[j] >> 6 & 3) << 4);
    }
  }
  std::memcpy(block.scales, p + 192, 16);
  block.d = read_u16(p + 208);
}

}  // namespace

void read_file_block(ElementType type, const std::byte* stored, FileBlock& block) {
  const auto* p = reinterpret_cast<const uint8_t*>(stored);
  if (type == ElementType::Q2_K) return read_q2_k(p, block);
  if (type == ElementType::Q3_K) return read_q3_k(p, block);
  if (type == ElementType::Q6_K) return read_q6_k(p, block);
  block.d = read_u16(p);
  switch (type) {
    case ElementType::Q8_0:
      std::memcpy(block.codes, p + 2, 32);
      return;
    case ElementType::Q4_0:
    case ElementType::IQ4_NL:
      return read_nibbles_32(p + 2, block.codes);
    case ElementType::Q4_1:
      block.m = read_u16(p + 2);
      return read_nibbles_32(p + 4, block.codes);
    case ElementType::Q5_0:
      read_nibbles_32(p + 6, block.codes);
      return add_fifth_bits_32(p + 2, block.codes);
    case ElementType::Q5_1:
      block.m = read_u16(p + 2);
      read_nibbles_32(p + 8, block.codes);
      return add_fifth_bits_32(p + 4, block.codes);
    case ElementType::Q4_K:
      block.m = read_u16(p + 2);
      read_scales_and_mins(p + 4, block);
      return read_nibbles_256(p + 16, block.codes);
    case ElementType::Q5_K:
      block.m = read_u16(p + 2);
      read_scales_and_mins(p + 4, block);
      read_nibbles_256(p + 48, block.codes);
      return add_fifth_bits_256(p + 16, block.codes);
    default:
      QUIRE_CHECK(false, "the type has no quantized blocks");
  }
}

}  // namespace quire::kernels
