// printable.h: names out of untrusted files, made fit for an error sentence.
//
// Plain functions without state, callable from any thread.
#pragma once
#include <string>
#include <string_view>

namespace quire::formats {

/// `name` with ill-formed UTF-8 and control characters replaced, cut after about 100 bytes; two
/// quotes if it is empty.
std::string printable(std::string_view name);

}  // namespace quire::formats
