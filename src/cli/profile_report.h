// profile_report.h: where the time of forward passes went, as a table and as JSON.
//
// One row a step and layer group: its share of all steps' time, and the rates at which it read
// bytes and did operations. Pure functions.
#pragma once
#include <string>

#include "formats/json.h"
#include "kv/geometry.h"
#include "model/profile.h"

namespace quire::cli {

/// "attend        global layers  12.3 %  ..." a line a step, the longest first; a heading above.
std::string profile_text(const model::Profile& profile, const kv::KvGeometry& geometry);
/// [{step, group, calls, ms, share, gb_s, gop_s}], the longest first.
formats::Json profile_json(const model::Profile& profile, const kv::KvGeometry& geometry);

}  // namespace quire::cli
