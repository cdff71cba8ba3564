#include "kv/codec.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/check.h"

namespace quire::kv {
namespace {

struct Spelling {
  std::string_view text;
  Codec codec;
};

constexpr std::array kSpellings = {
    Spelling{"f32", Codec::F32},     Spelling{"fp32", Codec::F32},
    Spelling{"float32", Codec::F32}, Spelling{"f16", Codec::F16},
    Spelling{"fp16", Codec::F16},    Spelling{"float16", Codec::F16},
    Spelling{"bf16", Codec::BF16},   Spelling{"bfloat16", Codec::BF16},
    Spelling{"q8", Codec::Q8},       Spelling{"q8_0", Codec::Q8},
    Spelling{"q6", Codec::Q6},       Spelling{"q4", Codec::Q4},
    Spelling{"q4_0", Codec::Q4},     Spelling{"q3", Codec::Q3},
    Spelling{"q2", Codec::Q2}};

}  // namespace

int64_t element_bytes(Codec codec) {
  return kernels::kv_element_bytes(kernel_element(codec));
}

bool is_lossless(Codec codec) {
  return kernel_code(codec) == kernels::KvCode::kNone;
}

bool is_lossless(KvCodecs codecs) {
  return is_lossless(codecs.k) && is_lossless(codecs.v);
}

std::string_view name(Codec codec) {
  switch (codec) {
    case Codec::F32:
      return "f32";
    case Codec::F16:
      return "f16";
    case Codec::BF16:
      return "bf16";
    case Codec::Q8:
      return "q8";
    case Codec::Q6:
      return "q6";
    case Codec::Q4:
      return "q4";
    case Codec::Q3:
      return "q3";
    case Codec::Q2:
      return "q2";
  }
  QUIRE_CHECK(false, "a codec outside its enumeration");
}

std::optional<Codec> codec_from_name(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const Spelling& spelling : kSpellings) {
    if (spelling.text == lower) return spelling.codec;
  }
  return std::nullopt;
}

std::string name(KvCodecs codecs) {
  if (codecs.k == codecs.v) return std::string(name(codecs.k));
  return std::string(name(codecs.k)) + "/" + std::string(name(codecs.v));
}

std::optional<KvCodecs> codecs_from_name(std::string_view name) {
  const size_t slash = name.find('/');
  const auto k = codec_from_name(name.substr(0, slash));
  const auto v = slash == std::string_view::npos ? k : codec_from_name(name.substr(slash + 1));
  if (!k || !v) return std::nullopt;
  return KvCodecs{*k, *v};
}

kernels::KvElement kernel_element(Codec codec) {
  switch (codec) {
    case Codec::F32:
      return kernels::KvElement::F32;
    case Codec::BF16:
      return kernels::KvElement::BF16;
    default:
      return kernels::KvElement::F16;
  }
}

kernels::KvCode kernel_code(Codec codec) {
  switch (codec) {
    case Codec::F32:
    case Codec::F16:
    case Codec::BF16:
      return kernels::KvCode::kNone;
    case Codec::Q8:
      return kernels::KvCode::kQ8;
    case Codec::Q6:
      return kernels::KvCode::kQ6;
    case Codec::Q4:
      return kernels::KvCode::kQ4;
    case Codec::Q3:
      return kernels::KvCode::kQ3;
    case Codec::Q2:
      return kernels::KvCode::kQ2;
  }
  QUIRE_CHECK(false, "a codec outside its enumeration");
}

}  // namespace quire::kv
