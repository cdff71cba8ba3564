// codec.h: how keys and values are stored in a page, and what an element costs.
//
// K and V have a codec each. Only sizes and names live here: conversion happens in the kernels that
// read and write pages. All functions are pure and may be called from any thread.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/paged_kv_view.h"

namespace quire::kv {

enum class Codec : uint8_t { F32, F16, BF16 };

/// The pair that a cache is made with.
struct KvCodecs {
  Codec k = Codec::F16;
  Codec v = Codec::F16;
  friend bool operator==(const KvCodecs&, const KvCodecs&) = default;
};

[[nodiscard]] int64_t element_bytes(Codec codec);

/// Whether each row is kept by itself, so that a page may be shared up to any of its tokens. Pages
/// of other codecs are encoded as a whole and shared as a whole.
[[nodiscard]] bool is_lossless(KvCodecs codecs);

/// "f32", "f16", "bf16".
[[nodiscard]] std::string_view name(Codec codec);

/// By our name or by the spellings of llama-server and Ollama ("fp16", "float32", any case).
[[nodiscard]] std::optional<Codec> codec_from_name(std::string_view name);

/// "f16" when K and V agree, else "f32/bf16": K first.
[[nodiscard]] std::string name(KvCodecs codecs);

/// What name(KvCodecs) prints, and the same with the spellings above.
[[nodiscard]] std::optional<KvCodecs> codecs_from_name(std::string_view name);

/// The element that the kernels read and write in such a page.
[[nodiscard]] kernels::KvElement kernel_element(Codec codec);

}  // namespace quire::kv
