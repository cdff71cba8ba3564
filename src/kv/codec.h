// codec.h: how keys and values are stored in a page, and what an element costs.
//
// K and V have a codec each. Lossless ones keep rows as they are; a lossy one keeps a page open in
// f16 while it fills and seals it into codes of so many bits, K per channel of the page, V per
// token (layout and formulas: kernels/paged_kv_view.h). Only names live here: conversion happens in
// the kernels that read and write pages. All functions are pure and may be called from any thread.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/paged_kv_view.h"

namespace quire::kv {

enum class Codec : uint8_t { F32, F16, BF16, Q8, Q6, Q4, Q3, Q2 };

/// The pair that a cache is made with.
struct KvCodecs {
  Codec k = Codec::F16;
  Codec v = Codec::F16;
  friend bool operator==(const KvCodecs&, const KvCodecs&) = default;
};

/// Bytes of a number in an open page.
[[nodiscard]] int64_t element_bytes(Codec codec);

/// Whether pages are never sealed: every query reads the rows as they were written, and a page may
/// be shared up to any of its tokens. Other codecs encode a page as a whole, and share it as a
/// whole.
[[nodiscard]] bool is_lossless(Codec codec);
[[nodiscard]] bool is_lossless(KvCodecs codecs);

/// "f32", "f16", "bf16", "q8", "q6", "q4", "q3", "q2".
[[nodiscard]] std::string_view name(Codec codec);

/// By our name or by the spellings of llama-server and Ollama ("fp16", "float32",
/// "q8_0", "q4_0", any case).
[[nodiscard]] std::optional<Codec> codec_from_name(std::string_view name);

/// "f16" when K and V agree, else "q6/q4": K first.
[[nodiscard]] std::string name(KvCodecs codecs);

/// What name(KvCodecs) prints, and the same with the spellings above.
[[nodiscard]] std::optional<KvCodecs> codecs_from_name(std::string_view name);

/// The number that the kernels read and write in an open page.
[[nodiscard]] kernels::KvElement kernel_element(Codec codec);
/// The code of a sealed page; kNone for lossless codecs.
[[nodiscard]] kernels::KvCode kernel_code(Codec codec);

}  // namespace quire::kv
