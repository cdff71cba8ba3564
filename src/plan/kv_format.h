// kv_format.h: what a page of keys and values costs in each codec, also those that only planning
// knows.
//
// Lossless rows cost what kv/geometry.h says. A quantized page holds codes of a few bits; K has a
// scale and a zero for each channel of the page, V for each token, 2 + 2 bytes. A page is quantized
// when it is full; a sequence's first page and the one being filled stay in f16 (KIVI's split,
// arXiv:2402.02750). Pure functions.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace quire::plan {

struct KvFormat {
  std::string_view name;
  int32_t bits = 16;
  bool lossless = true;  // rows are kept as they are: no scales, every page alike
};

struct KvFormats {
  KvFormat k;
  KvFormat v;
  /// Mean KL divergence to f16, measured on SmolLM2-135M; negative: not measured.
  double kl() const;
  bool lossless() const { return k.lossless && v.lossless; }
};

/// "f16", "q6/q4".
std::string name(const KvFormats& formats);
/// Also the spellings of llama-server ("q8_0", "fp16"); nothing if unknown.
std::optional<KvFormat> kv_format_from_name(std::string_view name);
std::optional<KvFormats> kv_formats_from_name(std::string_view name);
/// The pairs of the what-if table, finest first.
std::span<const std::string_view> usual_kv_formats();

/// Bytes of 64 tokens' keys or values of one layer and kv head.
int64_t key_page_bytes(const KvFormat& format, int64_t dims);
int64_t value_page_bytes(const KvFormat& format, int64_t dims);

}  // namespace quire::plan
