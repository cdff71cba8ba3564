#include "plan/kv_format.h"

#include <algorithm>
#include <array>

#include "kv/codec.h"
#include "kv/geometry.h"

namespace quire::plan {
namespace {

constexpr int64_t kScaleBytes = 4;  // a scale and a zero, f16 each

constexpr std::array kQuantized = {
    KvFormat{"q8", 8, false}, KvFormat{"q6", 6, false}, KvFormat{"q4", 4, false},
    KvFormat{"q3", 3, false}, KvFormat{"q2", 2, false},
};

struct Spelling {
  std::string_view theirs, ours;
};
constexpr std::array kSpellings = {Spelling{"q8_0", "q8"}, Spelling{"int8", "q8"},
                                   Spelling{"q6_0", "q6"}, Spelling{"q4_0", "q4"},
                                   Spelling{"q4_1", "q4"}, Spelling{"int4", "q4"}};

constexpr std::array<std::string_view, 9> kUsual = {"f32", "f16",   "q8", "q6", "q6/q4",
                                                    "q4",  "q4/q3", "q3", "q2"};

struct MeasuredError {
  std::string_view formats;
  double kl;
};
// DESIGN.md: SmolLM2-135M against f16, mean over tokens.
constexpr std::array kMeasured = {
    MeasuredError{"f32", 0.0},   MeasuredError{"f16", 0.0},      MeasuredError{"q8", 1.6e-5},
    MeasuredError{"q6", 2.7e-4}, MeasuredError{"q6/q4", 1.1e-3}, MeasuredError{"q4", 4e-3},
    MeasuredError{"q3", 0.02},   MeasuredError{"q2", 0.2},
};

int64_t code_bytes(const KvFormat& format, int64_t numbers) {
  return (numbers * format.bits + 7) / 8;
}

}  // namespace

double KvFormats::kl() const {
  const auto found = std::ranges::find(kMeasured, plan::name(*this), &MeasuredError::formats);
  return found == kMeasured.end() ? -1.0 : found->kl;
}

std::string name(const KvFormats& formats) {
  if (formats.k.name == formats.v.name) return std::string(formats.k.name);
  return std::string(formats.k.name) + "/" + std::string(formats.v.name);
}

std::optional<KvFormat> kv_format_from_name(std::string_view name) {
  if (const auto codec = kv::codec_from_name(name)) {
    const auto bits = static_cast<int32_t>(8 * kv::element_bytes(*codec));
    return KvFormat{.name = kv::name(*codec), .bits = bits, .lossless = true};
  }
  const auto spelling = std::ranges::find(kSpellings, name, &Spelling::theirs);
  const std::string_view ours = spelling == kSpellings.end() ? name : spelling->ours;
  const auto found = std::ranges::find(kQuantized, ours, &KvFormat::name);
  return found == kQuantized.end() ? std::nullopt : std::optional(*found);
}

std::optional<KvFormats> kv_formats_from_name(std::string_view name) {
  const size_t slash = name.find('/');
  const auto k = kv_format_from_name(name.substr(0, slash));
  const auto v = slash == std::string_view::npos ? k : kv_format_from_name(name.substr(slash + 1));
  if (!k || !v) return std::nullopt;
  return KvFormats{*k, *v};
}

std::span<const std::string_view> usual_kv_formats() {
  return kUsual;
}

int64_t key_page_bytes(const KvFormat& format, int64_t dims) {
  const int64_t codes = code_bytes(format, dims * kv::kPageTokens);
  return format.lossless ? codes : codes + dims * kScaleBytes;
}

int64_t value_page_bytes(const KvFormat& format, int64_t dims) {
  if (dims == 0) return 0;
  const int64_t codes = code_bytes(format, dims * kv::kPageTokens);
  return format.lossless ? codes : codes + kv::kPageTokens * kScaleBytes;
}

}  // namespace quire::plan
