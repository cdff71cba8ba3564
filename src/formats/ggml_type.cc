#include "formats/ggml_type.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace quire::formats {
namespace {

constexpr auto kUnread = std::nullopt;

constexpr GgmlType kTypes[] = {
    {0, "f32", 1, 4, ElementType::F32},
    {1, "f16", 1, 2, ElementType::F16},
    {2, "q4_0", 32, 18, ElementType::Q4_0},
    {3, "q4_1", 32, 20, ElementType::Q4_1},
    {4, "q4_2 (withdrawn)", 0, 0, kUnread},
    {5, "q4_3 (withdrawn)", 0, 0, kUnread},
    {6, "q5_0", 32, 22, ElementType::Q5_0},
    {7, "q5_1", 32, 24, ElementType::Q5_1},
    {8, "q8_0", 32, 34, ElementType::Q8_0},
    {9, "q8_1", 32, 36, kUnread},
    {10, "q2_k", 256, 84, ElementType::Q2_K},
    {11, "q3_k", 256, 110, ElementType::Q3_K},
    {12, "q4_k", 256, 144, ElementType::Q4_K},
    {13, "q5_k", 256, 176, ElementType::Q5_K},
    {14, "q6_k", 256, 210, ElementType::Q6_K},
    {15, "q8_k", 256, 292, kUnread},
    {16, "iq2_xxs", 256, 66, kUnread},
    {17, "iq2_xs", 256, 74, kUnread},
    {18, "iq3_xxs", 256, 98, kUnread},
    {19, "iq1_s", 256, 50, kUnread},
    {20, "iq4_nl", 32, 18, ElementType::IQ4_NL},
    {21, "iq3_s", 256, 110, kUnread},
    {22, "iq2_s", 256, 82, kUnread},
    {23, "iq4_xs", 256, 136, kUnread},
    {24, "i8", 1, 1, kUnread},
    {25, "i16", 1, 2, kUnread},
    {26, "i32", 1, 4, kUnread},
    {27, "i64", 1, 8, kUnread},
    {28, "f64", 1, 8, kUnread},
    {29, "iq1_m", 256, 56, kUnread},
    {30, "bf16", 1, 2, ElementType::BF16},
    {31, "q4_0_4_4 (withdrawn)", 0, 0, kUnread},
    {32, "q4_0_4_8 (withdrawn)", 0, 0, kUnread},
    {33, "q4_0_8_8 (withdrawn)", 0, 0, kUnread},
    {34, "tq1_0", 256, 54, kUnread},
    {35, "tq2_0", 256, 66, kUnread},
    {36, "iq4_nl_4_4 (withdrawn)", 0, 0, kUnread},
    {37, "iq4_nl_4_8 (withdrawn)", 0, 0, kUnread},
    {38, "iq4_nl_8_8 (withdrawn)", 0, 0, kUnread},
    {39, "mxfp4", 32, 17, kUnread},
    {40, "nvfp4", 64, 36, kUnread},
    {41, "q1_0", 128, 18, kUnread},
    {42, "q2_0", 64, 18, kUnread},
};

}  // namespace

const GgmlType* find_ggml_type(uint32_t id) {
  const auto found = std::ranges::find(kTypes, id, &GgmlType::id);
  return found == std::end(kTypes) ? nullptr : found;
}

const GgmlType& ggml_type_of(ElementType type) {
  const auto found = std::ranges::find(kTypes, std::optional(type), &GgmlType::type);
  QUIRE_CHECK(found != std::end(kTypes), "ggml has every type that Quire reads");
  return *found;
}

}  // namespace quire::formats
