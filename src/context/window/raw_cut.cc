#include "context/window/raw_cut.h"

#include <fmt/format.h>

#include <algorithm>

namespace quire::context::window {
namespace {

std::string_view risk_of(Policy policy) {
  switch (policy) {
    case Policy::kTruncateLeft:
      return "the beginning of the text is missing";
    case Policy::kTruncateRight:
      return "the end of the text is missing, from which it would go on";
    default:
      return "the middle of the text is missing, and its ends are joined without a mark";
  }
}

}  // namespace

Result<std::vector<TokenId>> cut_raw(const Tokenizer& tokenizer, std::span<const TokenId> tokens,
                                     Policy policy, Report& report) {
  const bool known = policy == Policy::kTruncateLeft || policy == Policy::kTruncateRight ||
                     policy == Policy::kHeadTail;
  if (!known) {
    return Error{ErrorCode::kUsage,
                 fmt::format("overflow policy {} needs messages; a text without them can be cut by "
                             "truncate_left, truncate_right or head_tail",
                             name(policy))};
  }
  const std::span<const TokenId> prefix = tokenizer.prefix();
  const bool framed =
      tokens.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), tokens.begin());
  const size_t first = framed ? prefix.size() : 0;
  const auto room = report.budget.usable - static_cast<int64_t>(first);
  if (room < 1) {
    return Error{ErrorCode::kDoesNotFit,
                 fmt::format("the window of {} tokens has no room for any text beside the {} that "
                             "are kept for the answer",
                             report.limits.window, report.budget.reserve)};
  }
  const std::span<const TokenId> body = tokens.subspan(first);
  const size_t keep = std::min(body.size(), static_cast<size_t>(room));
  const size_t head = policy == Policy::kTruncateRight  ? keep
                      : policy == Policy::kTruncateLeft ? 0
                                                        : (keep + 1) / 2;
  std::vector<TokenId> kept(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(first));
  kept.insert(kept.end(), body.begin(), body.begin() + static_cast<std::ptrdiff_t>(head));
  kept.insert(kept.end(), body.end() - static_cast<std::ptrdiff_t>(keep - head), body.end());
  report.status = KeepPlan::Status::kChanged;
  report.prompt_tokens = static_cast<int64_t>(kept.size());
  report.risk = risk_of(policy);
  report.parts = {{.part = "text",
                   .kind = PartKind::kQuestion,
                   .before = static_cast<int64_t>(tokens.size()),
                   .after = report.prompt_tokens,
                   .action = "cut",
                   .handle = {},
                   .why = std::string(name(policy))}};
  return kept;
}

}  // namespace quire::context::window
