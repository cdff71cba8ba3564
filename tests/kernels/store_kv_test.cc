#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/kernel_set.h"
#include "kernels/paged_sequence.h"

namespace quire::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr KvElement kElements[] = {KvElement::F32, KvElement::F16, KvElement::BF16};

KvGroupShape shape_of(int32_t num_kv_heads, int32_t head_dim, KvElement element) {
  return {.num_layers = 1,
          .num_kv_heads = num_kv_heads,
          .head_dim = head_dim,
          .key = element,
          .value = element};
}

/// `x` rounded to nearest even at the element's precision, in double arithmetic.
float rounded(float x, KvElement element) {
  if (element == KvElement::F32 || x == 0.0f) return x;
  const int bits = element == KvElement::F16 ? 11 : 8;
  const int smallest = element == KvElement::F16 ? -24 : -133;  // of the subnormals
  const double unit = std::ldexp(1.0, std::max(std::ilogb(x) - bits + 1, smallest));
  const double largest = element == KvElement::F16 ? 65504.0 : 0x1.FEp127;
  const double nearest = std::nearbyint(x / unit) * unit;
  return static_cast<float>(std::copysign(std::min(std::abs(nearest), largest), x));
}

/// Numbers of all magnitudes, ties and both zeros among them.
std::vector<float> hard_numbers(int64_t count) {
  std::mt19937 generator(3);
  std::vector<float> numbers;
  while (static_cast<int64_t>(numbers.size()) < count) {
    const float any = std::bit_cast<float>(static_cast<uint32_t>(generator()));
    if (!std::isfinite(any)) continue;
    numbers.push_back(any);
    const float near_one =
        std::ldexp(any, -std::ilogb(any) + static_cast<int>(generator() % 40) - 26);
    numbers.push_back(near_one);
    const uint32_t bits = std::bit_cast<uint32_t>(near_one);
    numbers.push_back(std::bit_cast<float>((bits & ~0x1FFFu) | 0x1000u));  // an f16 tie
    numbers.push_back(std::bit_cast<float>((bits & ~0xFFFFu) | 0x8000u));  // a bf16 tie
    numbers.push_back(generator() % 2 != 0 ? 0.0f : -0.0f);
  }
  numbers.resize(static_cast<size_t>(count));
  return numbers;
}

TEST(StoreKv, RoundsEveryNumberToNearestEvenInItsPlace) {
  for (const KvElement element : kElements) {
    for (const int32_t head_dim : {8, 24, 64, 80}) {
      for (const KernelSet* set : available_sets()) {
        SCOPED_TRACE(testing::Message() << set->name << " " << int(element) << " " << head_dim);
        PagedSequence sequence(shape_of(2, head_dim, element), 150);
        const std::vector<float> k = hard_numbers(150 * sequence.row_floats());
        const std::vector<float> v(k.rbegin(), k.rend());
        sequence.store(*set, k, v);
        for (int32_t p = 0; p < 150; ++p) {
          for (int32_t h = 0; h < 2; ++h) {
            for (int32_t d = 0; d < head_dim; ++d) {
              const size_t at = static_cast<size_t>(p * sequence.row_floats() + h * head_dim + d);
              ASSERT_EQ(sequence.key(h, p, d), rounded(k[at], element)) << k[at];
              ASSERT_EQ(sequence.value(h, p, d), rounded(v[at], element)) << v[at];
            }
          }
        }
      }
    }
  }
}

TEST(StoreKv, WritesTheSameBytesOnEveryInstructionSetHoweverRowsAreDivided) {
  for (const KvElement element : kElements) {
    PagedSequence reference(shape_of(3, 40, element), 200, 0xAB);
    const std::vector<float> k = hard_numbers(200 * reference.row_floats());
    const std::vector<float> v = random_floats(200 * reference.row_floats(), 4);
    reference.store(*available_sets().front(), k, v);
    for (const KernelSet* set : available_sets()) {
      PagedSequence divided(shape_of(3, 40, element), 200, 0xAB);
      const StoreKvArgs args{.kv = &divided.view(),
                             .layer = 0,
                             .first_position = 0,
                             .k = k.data(),
                             .v = v.data(),
                             .kv_stride = divided.row_floats()};
      for (const int64_t row : {70, 150, 0, 69, 1}) {
        const int64_t end = row == 0 ? 1 : row == 1 ? 69 : row == 69 ? 70 : row == 70 ? 150 : 200;
        set->store_kv(args, row, end);
      }
      EXPECT_EQ(
          std::memcmp(divided.bytes().data(), reference.bytes().data(), reference.bytes().size()),
          0)
          << set->name << " " << int(element);
    }
  }
}

TEST(StoreKv, KeepsWhatIsTooLargeFiniteAndWhatIsNotANumberVisible) {
  for (const KvElement element : {KvElement::F16, KvElement::BF16}) {
    const float largest = element == KvElement::F16 ? 65504.0f : 0x1.FEp127f;
    for (const KernelSet* set : available_sets()) {
      PagedSequence sequence(shape_of(1, 8, element), 1);
      const std::vector<float> row = {
          65519.0f,   65520.0f, -1e6f,    std::numeric_limits<float>::max(),
          -kInfinity, largest,  -largest, kInfinity,
      };
      sequence.store(*set, row, row);
      for (int32_t d = 0; d < 8; ++d) {
        EXPECT_EQ(sequence.key(0, 0, d), rounded(std::clamp(row[d], -largest, largest), element));
        EXPECT_TRUE(std::isfinite(sequence.value(0, 0, d)));
      }
      const std::vector<float> nan(8, std::numeric_limits<float>::quiet_NaN());
      sequence.store(*set, nan, nan);
      EXPECT_TRUE(std::isnan(sequence.key(0, 0, 3)) && std::isnan(sequence.value(0, 0, 3)));
    }
  }
}

TEST(StoreKv, TouchesNoOtherSlotLayerOrHead) {
  for (const KernelSet* set : available_sets()) {
    KvGroupShape shape = shape_of(2, 24, KvElement::F16);
    shape.num_layers = 3;
    PagedSequence sequence(shape, 128, 0x55);
    const std::vector<float> row = random_floats(sequence.row_floats(), 5, 100.0f);
    const StoreKvArgs args{.kv = &sequence.view(),
                           .layer = 1,
                           .first_position = 77,
                           .k = row.data(),
                           .v = row.data(),
                           .kv_stride = sequence.row_floats()};
    set->store_kv(args, 0, 1);

    std::vector<bool> expected(sequence.bytes().size());
    const int64_t page = shape.page_bytes();
    for (int32_t head = 0; head < 2; ++head) {
      for (int32_t d = 0; d < 24; ++d) {
        const int64_t key = page + shape.key_offset(1, head) + 2 * (d * kPageSlots + 13);
        const int64_t value = page + shape.value_offset(1, head) + 2 * (13 * 24 + d);
        for (const int64_t byte : {key, key + 1, value, value + 1}) expected[byte] = true;
      }
    }
    int64_t changed = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      const bool touched = sequence.bytes()[i] != std::byte{0x55};
      changed += touched;
      EXPECT_TRUE(expected[i] || !touched) << set->name << " byte " << i;
    }
    EXPECT_GT(changed, 180);  // of 192: a byte may be 0x55 by chance
  }
}

TEST(StoreKvDeathTest, TrapsWhenNoPageHoldsThePosition) {
  PagedSequence sequence(shape_of(1, 8, KvElement::F16), 10);
  const std::vector<float> row(8);
  const StoreKvArgs args{.kv = &sequence.view(),
                         .layer = 0,
                         .first_position = 10,
                         .k = row.data(),
                         .v = row.data(),
                         .kv_stride = 8};
  EXPECT_DEATH(available_sets().back()->store_kv(args, 0, 1), "");
}

}  // namespace
}  // namespace quire::kernels
