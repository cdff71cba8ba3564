#include "plan/kv_error.h"

#include <algorithm>
#include <array>

namespace quire::plan {
namespace {

using kv::Codec;
using kv::KvCodecs;

constexpr std::array kUsual = {
    KvCodecs{Codec::F32, Codec::F32}, KvCodecs{Codec::F16, Codec::F16},
    KvCodecs{Codec::Q8, Codec::Q8},   KvCodecs{Codec::Q6, Codec::Q6},
    KvCodecs{Codec::Q6, Codec::Q4},   KvCodecs{Codec::Q4, Codec::Q4},
    KvCodecs{Codec::Q3, Codec::Q3},   KvCodecs{Codec::Q2, Codec::Q2},
};

struct Measured {
  KvCodecs codecs;
  double kl;
};
// f32 is finer than the f16 it is compared with.
constexpr std::array kMeasured = {
    Measured{{Codec::F32, Codec::F32}, 0.0},  Measured{{Codec::F16, Codec::F16}, 0.0},
    Measured{{Codec::Q8, Codec::Q8}, 9.6e-6}, Measured{{Codec::Q6, Codec::Q6}, 1.5e-4},
    Measured{{Codec::Q6, Codec::Q4}, 6.7e-4}, Measured{{Codec::Q4, Codec::Q4}, 2.8e-3},
    Measured{{Codec::Q3, Codec::Q3}, 0.016},  Measured{{Codec::Q2, Codec::Q2}, 0.21},
};

int32_t bits(Codec codec) {
  const kernels::KvCode code = kv::kernel_code(codec);
  return code == kernels::KvCode::kNone ? static_cast<int32_t>(8 * kv::element_bytes(codec))
                                        : kernels::kv_code_bits(code);
}

}  // namespace

std::span<const KvCodecs> usual_codecs() {
  return kUsual;
}

std::optional<double> measured_kl(KvCodecs codecs) {
  const auto found = std::ranges::find(kMeasured, codecs, &Measured::codecs);
  return found == kMeasured.end() ? std::nullopt : std::optional(found->kl);
}

int32_t code_bits(KvCodecs codecs) {
  return bits(codecs.k) + bits(codecs.v);
}

}  // namespace quire::plan
