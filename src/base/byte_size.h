// byte_size.h: sizes of memory as people write them.
//
// K, M, G and T count in 1,024s, as do KiB, MiB, GiB and TiB; KB, MB, GB and TB count in 1,000s. So
// 24G = 24GiB = 24 * 2^30 and 24GB = 24 * 10^9. Pure functions.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace quire {

/// "200M", "1.5GiB", "24GB", "4096", in any case; nothing if it is no size or beyond int64.
std::optional<int64_t> parse_byte_size(std::string_view text);

/// "512 B", "22.5 KiB", "1.75 GiB": three digits, in 1,024s.
std::string format_bytes(int64_t bytes);

/// "1,879,048,192".
std::string format_count(int64_t count);

}  // namespace quire
