// attention_tile.inl: the matrix product inside attention: acc[r][c] += x[r][k] * m[k][c], k
// ascending.
//
// Both halves of attention are this product: scores = q . K over dimensions, output += p . V over
// slots. Every element is one chain of fma in order of k, whatever the tile: shapes change no bits.
#pragma once
#include "kernels/impl/kv_element.inl"

namespace quire::kernels::QUIRE_ISA {

/// Most rows of x in a tile of registers.
inline constexpr int kTileRows = 6;

/// Vectors of 16 columns beside `rows` rows, so that sums, one vector of m and the broadcasts fit:
/// 16 eight-lane registers hold 3 x 2 or 6 x 1 vectors, 32 sixteen-lane ones 6 x 4.
constexpr int tile_vectors(int rows) {
  if (kRegisters >= 64) return 4;
  return rows <= 3 ? 2 : 1;
}

/// What the sums start from.
enum class Start : uint8_t {
  kZero,        // nothing
  kKeep,        // acc
  kScaled,      // acc * scale[row]
  kBias,        // bias[row]
  kScaledBias,  // acc * scale[row] + bias[row]
};

template <class E>
struct Product {
  const float* x;  // [rows, x_stride], columns k
  int64_t x_stride;
  const typename E::Stored* m;      // [k_count, m_stride]
  const typename E::Stored* ahead;  // where to prefetch: as m, in the page that follows
  int64_t m_stride;                 // in Stored
  int64_t k_count;
  int64_t columns;  // a multiple of 16
  float* acc;       // [rows, acc_stride]
  int64_t acc_stride;
  Start start;
  const float* scale = nullptr;  // [rows]
  const float* bias = nullptr;   // [rows]
};

template <class E>
QUIRE_ALWAYS_INLINE F32x16 starting_sum(const Product<E>& p, int64_t row, const float* acc) {
  switch (p.start) {
    case Start::kZero:
      return zero();
    case Start::kKeep:
      return load(acc);
    case Start::kScaled:
      return load(acc) * broadcast(p.scale[row]);
    case Start::kBias:
      return broadcast(p.bias[row]);
    case Start::kScaledBias:
      return load(acc) * broadcast(p.scale[row]) + broadcast(p.bias[row]);
  }
  return zero();
}

/// Rows [row, row + R), columns [column, column + 16 V).
template <class E, int R, int V>
static void multiply_tile(const Product<E>& p, int64_t row, int64_t column) {
  const float* x = p.x + row * p.x_stride;
  const int64_t x_stride = p.x_stride;
  const typename E::Stored* m = p.m + E::stored(column);
  const typename E::Stored* ahead = p.ahead + E::stored(column);
  float* acc = p.acc + row * p.acc_stride + column;

  F32x16 sums[R][V];
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < V; ++v) {
      sums[r][v] = starting_sum(p, row + r, acc + r * p.acc_stride + 16 * v);
    }
  }
  for (int64_t k = 0; k < p.k_count; ++k) {
    // Pages are read straight from memory; floats are mostly scratch in the L1 cache.
    if constexpr (E::kBits <= 16) {
      constexpr int kVectorsPerLine = 32 / E::kBits;
      for (int v = 0; v < V; v += kVectorsPerLine) {
        prefetch(ahead + k * p.m_stride + E::stored(16 * v));
      }
    }
    for (int v = 0; v < V; ++v) {
      const F32x16 column_v = E::load16(m + k * p.m_stride + E::stored(16 * v));
      const float* factors = reread(x + k);
      for (int r = 0; r < R; ++r) {
        sums[r][v] = fma(broadcast(factors[r * x_stride]), column_v, sums[r][v]);
      }
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < V; ++v) store(acc + r * p.acc_stride + 16 * v, sums[r][v]);
  }
}

template <class E, int R>
static void multiply_rows(const Product<E>& p, int64_t row) {
  constexpr int kVectors = tile_vectors(R);
  int64_t column = 0;
  for (; column + 16 * kVectors <= p.columns; column += 16 * kVectors) {
    multiply_tile<E, R, kVectors>(p, row, column);
  }
  if constexpr (kVectors == 4) {
    if (column + 32 <= p.columns) {
      multiply_tile<E, R, 2>(p, row, column);
      column += 32;
    }
  }
  if (column < p.columns) multiply_tile<E, R, 1>(p, row, column);
}

/// Rows that the next tile takes of `left`: full tiles, and the rest halved rather than left
/// ragged.
QUIRE_ALWAYS_INLINE int64_t next_tile_rows(int64_t left) {
  if (left <= kTileRows) return left;
  return left < 2 * kTileRows ? (left + 1) / 2 : kTileRows;
}

template <class E>
static void multiply(const Product<E>& p, int64_t rows) {
  for (int64_t row = 0; row < rows;) {
    const int64_t n = next_tile_rows(rows - row);
    switch (n) {
      case 1:
        multiply_rows<E, 1>(p, row);
        break;
      case 2:
        multiply_rows<E, 2>(p, row);
        break;
      case 3:
        multiply_rows<E, 3>(p, row);
        break;
      case 4:
        multiply_rows<E, 4>(p, row);
        break;
      case 5:
        multiply_rows<E, 5>(p, row);
        break;
      default:
        multiply_rows<E, 6>(p, row);
        break;
    }
    row += n;
  }
}

}  // namespace quire::kernels::QUIRE_ISA
