#include "kernels/kernel_set.h"

#include <cpuid.h>
#include <fmt/format.h>
#include <xmmintrin.h>

#include <array>
#include <string>

#include "kernels/kernel_tables.h"

namespace quire::kernels {
namespace {

constexpr std::array kFastestFirst = {Isa::kAvx512, Isa::kAvx2, Isa::kScalar};
constexpr unsigned kDefaultMxcsr = 0x1F80;  // all exceptions masked, to nearest, denormals kept

bool machine_has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

// __builtin_cpu_supports also asks whether the system saves the wide registers.
bool machine_has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && machine_has_f16c();
}

bool machine_has_avx512() {
  return machine_has_avx2() && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
}

const KernelSet& table(Isa isa) {
  switch (isa) {
    case Isa::kAvx2:
      return avx2::kernel_set();
    case Isa::kAvx512:
      return avx512::kernel_set();
    case Isa::kScalar:
      break;
  }
  return scalar::kernel_set();
}

}  // namespace

const KernelSet* kernels_for(Isa isa) {
  if (isa == Isa::kAvx2 && !machine_has_avx2()) return nullptr;
  if (isa == Isa::kAvx512 && !machine_has_avx512()) return nullptr;
  return &table(isa);
}

Result<const KernelSet*> select_kernels(std::string_view forced) {
  for (const Isa isa : kFastestFirst) {
    if (!forced.empty() && forced != table(isa).name) continue;
    if (const KernelSet* found = kernels_for(isa)) return found;
    if (!forced.empty()) {
      return Error{ErrorCode::kUnsupported,
                   fmt::format("this machine cannot run the {} kernels that QUIRE_ISA asks for; "
                               "leave it unset to use the fastest that it can",
                               forced)};
    }
  }
  return Error{ErrorCode::kUsage,
               fmt::format("QUIRE_ISA is \"{}\"; it may be scalar, avx2 or avx512", forced)};
}

ScopedFloatEnvironment::ScopedFloatEnvironment() : saved_(_mm_getcsr()) {
  _mm_setcsr(kDefaultMxcsr);
}
ScopedFloatEnvironment::~ScopedFloatEnvironment() {
  _mm_setcsr(saved_);
}

}  // namespace quire::kernels
