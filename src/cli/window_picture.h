// window_picture.h: the context window as people see it: a table, a bar, a drawing.
//
// Pure functions of the window manager's report.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "context/window/fit.h"

namespace quire::cli {

enum class BarColour : uint8_t { kLetters, kColours };

/// "W 4096 | out 512 | usable 3584 | prompt 3390 (was 6120)".
std::string window_head(const context::window::Report& report);

/// part, before, after, action, why; neighbours of one kind and action share a line.
std::string window_table(const context::window::Report& report);

/// The window from its first token to its last, a colour (or a letter) a kind of part, with a
/// legend.
std::string window_bar(const context::window::Report& report, BarColour colour, int cells);

/// The request before and after, part by part, against the window: a whole SVG document.
std::string window_svg(const context::window::Report& report);

}  // namespace quire::cli
