// schedule_plan.h: the plain decisions of scheduling: who starts, who makes room, who reads how
// much of a prompt.
//
// Data in, plan out; engine/scheduler.h applies them. docs/scheduling.md says why they are so. Pure
// functions.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/request.h"

namespace quire::engine {

/// A request as these plans see it.
struct Contender {
  RequestId id;  // ascends with age: the smaller came first
  std::string_view tenant;
};

/// Whose turn it is: of the tenants with the fewest running requests, the request that came first.
/// Nothing if none waits. The index is one of `waiting`.
std::optional<size_t> next_to_start(std::span<const Contender> waiting,
                                    std::span<const Contender> running);

/// Who gives way when memory runs out: of the tenants with the most running requests, the youngest
/// request. The oldest of all is never it while others run, so something always gets done.
/// Requires a running request. The index is one of `running`.
size_t whom_to_preempt(std::span<const Contender> running);

/// Who gives way so that `candidate` may start: the same one, if its tenant has at least two more
/// running requests than the candidate's. So they never swap back.
std::optional<size_t> whom_to_replace(const Contender& candidate,
                                      std::span<const Contender> running);

/// A request that reads its prompt.
struct Reader {
  std::string_view tenant;
  int64_t limit = 0;  // tokens it may read in this step
};

/// Divides `tokens` among readers that stand in the order in which they came: equally among
/// tenants, each tenant's first reader first. Nobody gets more than its limit, and nothing is left
/// over that somebody could read. // result: [readers]
std::vector<int64_t> divide_tokens(std::span<const Reader> readers, int64_t tokens);

}  // namespace quire::engine
