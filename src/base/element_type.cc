#include "base/element_type.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/check.h"
#include "base/checked_math.h"

namespace quire {
namespace {

constexpr std::array<ElementTypeInfo, 14> kTypes = {{
    {ElementType::F32, "f32", 1, 4},
    {ElementType::F16, "f16", 1, 2},
    {ElementType::BF16, "bf16", 1, 2},
    {ElementType::Q8_0, "q8_0", 32, 34},
    {ElementType::Q4_0, "q4_0", 32, 18},
    {ElementType::Q4_1, "q4_1", 32, 20},
    {ElementType::Q5_0, "q5_0", 32, 22},
    {ElementType::Q5_1, "q5_1", 32, 24},
    {ElementType::IQ4_NL, "iq4_nl", 32, 18},
    {ElementType::Q2_K, "q2_k", 256, 84},
    {ElementType::Q3_K, "q3_k", 256, 110},
    {ElementType::Q4_K, "q4_k", 256, 144},
    {ElementType::Q5_K, "q5_k", 256, 176},
    {ElementType::Q6_K, "q6_k", 256, 210},
}};

}  // namespace

const ElementTypeInfo& info(ElementType type) {
  const auto index = static_cast<size_t>(type);
  QUIRE_CHECK(index < kTypes.size() && kTypes[index].type == type, "unknown element type");
  return kTypes[index];
}

std::optional<ElementType> element_type_from_name(std::string_view name) {
  const auto same = [&](const ElementTypeInfo& t) {
    return std::ranges::equal(t.name, name, [](char a, char b) {
      return a == std::tolower(static_cast<unsigned char>(b));
    });
  };
  const auto found = std::ranges::find_if(kTypes, same);
  if (found == kTypes.end()) return std::nullopt;
  return found->type;
}

std::optional<uint64_t> stored_bytes(ElementType type, uint64_t elements) {
  const ElementTypeInfo& t = info(type);
  const auto block = static_cast<uint64_t>(t.block_elements);
  if (elements % block != 0) return std::nullopt;
  return checked_mul<uint64_t>(elements / block, static_cast<uint64_t>(t.block_bytes));
}

}  // namespace quire
