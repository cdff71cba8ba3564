#include "kernels/kernel_set.h"

#include <gtest/gtest.h>
#include <immintrin.h>

#include <bit>

#include "kernels/simd/scalar.h"

namespace quire::kernels {
namespace {

TEST(KernelSelection, GivesTheSetThatIsAskedFor) {
  const auto scalar = select_kernels("scalar");
  ASSERT_TRUE(scalar.ok());
  EXPECT_EQ((*scalar)->isa, Isa::kScalar);
  EXPECT_EQ((*scalar)->name, "scalar");
}

TEST(KernelSelection, GivesTheFastestThatTheMachineHas) {
  const KernelSet* fastest = select_kernels("").value();
  if (kernels_for(Isa::kAvx512) != nullptr) {
    EXPECT_EQ(fastest->isa, Isa::kAvx512);
  } else {
    EXPECT_EQ(fastest->isa, kernels_for(Isa::kAvx2) != nullptr ? Isa::kAvx2 : Isa::kScalar);
  }
}

TEST(KernelSelection, RefusesANameThatIsNone) {
  const auto none = select_kernels("avx1024");
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, ErrorCode::kUsage);
  EXPECT_NE(none.error().message.find("avx1024"), std::string::npos);
}

TEST(KernelSelection, RefusesASetThatTheMachineCannotRun) {
  if (kernels_for(Isa::kAvx512) != nullptr) GTEST_SKIP() << "this machine runs every set";
  const auto refused = select_kernels("avx512");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
}

TEST(FloatEnvironment, IsTheDefaultInsideAndAsBeforeOutside) {
  const unsigned before = _mm_getcsr();
  const unsigned flushing =
      before | 0x8040 | 0x6000;  // flush to zero, denormals are zero, truncate
  _mm_setcsr(flushing);
  {
    const ScopedFloatEnvironment environment;
    EXPECT_EQ(_mm_getcsr(), 0x1F80u);
    volatile float smallest = 0x1p-126f;
    EXPECT_GT(smallest * 0.5f, 0.0f);
  }
  EXPECT_EQ(_mm_getcsr() & ~0x3Fu, flushing & ~0x3Fu);
  _mm_setcsr(before);
}

__attribute__((target("f16c"))) float hardware_half_to_float(uint16_t h) {
  return _cvtsh_ss(h);
}
__attribute__((target("f16c"))) uint16_t hardware_float_to_half(float f) {
  return static_cast<uint16_t>(
      _mm_cvtsi128_si32(_mm_cvtps_ph(_mm_set_ss(f), _MM_FROUND_TO_NEAREST_INT)));
}

class HalfConversion : public testing::Test {
 protected:
  void SetUp() override {
    if (kernels_for(Isa::kAvx2) == nullptr) GTEST_SKIP() << "no hardware to compare with";
  }
};

TEST_F(HalfConversion, ToFloatIsThatOfTheHardwareForEveryHalf) {
  for (uint32_t h = 0; h < 0x10000; ++h) {
    const auto half = static_cast<uint16_t>(h);
    ASSERT_EQ(std::bit_cast<uint32_t>(scalar::half_to_float(half)),
              std::bit_cast<uint32_t>(hardware_half_to_float(half)))
        << h;
  }
}

TEST_F(HalfConversion, FromFloatIsThatOfTheHardwareForFloatsOfEveryExponent) {
  // An odd step through all bit patterns: about 8 million floats, every exponent, both signs, NaNs.
  for (uint64_t bits = 0; bits <= 0xFFFFFFFFu; bits += 509) {
    const float f = std::bit_cast<float>(static_cast<uint32_t>(bits));
    ASSERT_EQ(scalar::float_to_half(f), hardware_float_to_half(f)) << bits;
  }
}

}  // namespace
}  // namespace quire::kernels
