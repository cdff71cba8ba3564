#include "model/rope_stretch.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace quire::model {
namespace {

constexpr double kMostFactor = 1024.0;

std::string_view name(RopeScaling scaling) {
  return scaling == RopeScaling::kYarn ? "yarn" : "linear";
}

/// Layers with windows keep their own rotation, unless no layer is without.
std::vector<int32_t> ropes_to_stretch(const ModelConfig& config) {
  std::vector<int32_t> ropes;
  const auto add = [&](const LayerConfig& layer) {
    if (layer.rope != kNoRope && std::ranges::count(ropes, layer.rope) == 0) {
      ropes.push_back(layer.rope);
    }
  };
  for (const LayerConfig& layer : config.layers) {
    if (layer.window_tokens == 0) add(layer);
  }
  if (ropes.empty()) std::ranges::for_each(config.layers, add);
  return ropes;
}

}  // namespace

Result<RopeStretch> parse_rope_stretch(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  const std::string_view number = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  RopeStretch stretch;
  const auto [end, error] =
      std::from_chars(number.data(), number.data() + number.size(), stretch.factor);
  const bool whole = error == std::errc() && end == number.data() + number.size();
  const bool in_range = stretch.factor > 1.0 && stretch.factor <= kMostFactor;
  if ((kind != "yarn" && kind != "linear") || !whole || !in_range) {
    return Error{ErrorCode::kUsage,
                 fmt::format("--rope-scaling wants yarn:F or linear:F with 1 < F <= {:.0f}, such "
                             "as yarn:4, not '{}'",
                             kMostFactor, text)};
  }
  stretch.scaling = kind == "yarn" ? RopeScaling::kYarn : RopeScaling::kLinear;
  return stretch;
}

std::string name(const RopeStretch& stretch) {
  return fmt::format("{}:{}", name(stretch.scaling), stretch.factor);
}

Result<ModelConfig> stretched(ModelConfig config, const RopeStretch& stretch) {
  const std::vector<int32_t> ropes = ropes_to_stretch(config);
  if (ropes.empty()) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("--rope-scaling {}: {} has no rotated positions to stretch",
                             name(stretch), config.architecture)};
  }
  for (const int32_t index : ropes) {
    RopeConfig& rope = config.ropes[static_cast<size_t>(index)];
    if (rope.scaling != RopeScaling::kNone || !rope.divisors.empty()) {
      return Error{ErrorCode::kUnsupported,
                   fmt::format("--rope-scaling {}: the model's own rotation is scaled already, for "
                               "a context of {} tokens; leave the option out",
                               name(stretch), config.context)};
    }
    rope.scaling = stretch.scaling;
    rope.factor = stretch.factor;
    if (stretch.scaling == RopeScaling::kLinear) continue;
    rope.original_context = config.context;
    rope.magnitude = yarn_magnitude(stretch.factor);
  }
  config.context = static_cast<int32_t>(
      std::min(std::floor(config.context * stretch.factor), static_cast<double>(1 << 30)));
  return checked(std::move(config));
}

}  // namespace quire::model
