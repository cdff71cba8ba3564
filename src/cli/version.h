// version.h: which Quire this is.
#pragma once
#include <string_view>

namespace quire::cli {

/// "0.1.0".
std::string_view version();

}  // namespace quire::cli
