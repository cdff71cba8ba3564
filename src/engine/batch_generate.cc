#include "engine/batch_generate.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "engine/scheduler.h"

namespace quire::engine {
namespace {

int64_t common_tokens(std::span<const TokenId> a, std::span<const TokenId> b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
}

/// Where other prompts leave each: how much it shares with all of them and with the next one.
std::vector<std::vector<int64_t>> shared_beginnings(std::span<const BatchRequest> requests) {
  std::vector<std::vector<int64_t>> points(requests.size());
  if (requests.size() < 2) return points;
  auto of_all = static_cast<int64_t>(requests[0].prompt.size());
  for (const BatchRequest& request : requests) {
    of_all = std::min(of_all, common_tokens(requests[0].prompt, request.prompt));
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    const std::span<const TokenId> prompt = requests[i].prompt;
    std::vector<int64_t> found = requests[i].options.resume_points;
    found.push_back(of_all);
    if (i + 1 < requests.size()) found.push_back(common_tokens(prompt, requests[i + 1].prompt));
    std::ranges::sort(found);
    for (const int64_t point : found) {
      const bool is_new = points[i].empty() || points[i].back() != point;
      // The last token always runs, so what ends there is no point to go on from.
      if (is_new && point > 0 && point < static_cast<int64_t>(prompt.size())) {
        points[i].push_back(point);
      }
    }
  }
  return points;
}

class BatchListener : public RequestListener {
 public:
  BatchListener(size_t index, const BatchEvents& events, std::vector<RequestId>& begun)
      : index_(index), events_(events), begun_(begun) {}
  void on_start(const Reuse&) override { begun_.push_back({static_cast<int64_t>(index_)}); }
  void on_prefill(int64_t, int64_t) override {}
  void on_token(const TokenEvent&) override {}
  void on_done(Result<Generated> answer) override { events_.on_done(index_, std::move(answer)); }

 private:
  const size_t index_;
  const BatchEvents& events_;
  std::vector<RequestId>& begun_;
};

/// Hands over those that have ended; how many.
int64_t tell_ended(Scheduler& scheduler) {
  auto ended = scheduler.take_ended();
  for (EndedRequest& one : ended) one.listener->on_done(std::move(one.answer));
  return static_cast<int64_t>(ended.size());
}

}  // namespace

void generate_batch(Engine& engine, std::span<const BatchRequest> requests,
                    const BatchOptions& options, const BatchEvents& events) {
  // Nobody waits for single tokens: prompts are read in the largest chunks.
  Scheduler scheduler(engine, {.max_sequences = options.max_sequences,
                               .prefill_slowdown = std::numeric_limits<double>::infinity()});
  const auto resume_points = shared_beginnings(requests);
  std::vector<RequestId> begun;
  int64_t done = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    Request request;
    request.prompt = requests[i].prompt;
    request.options = requests[i].options;
    request.options.resume_points = resume_points[i];
    if (Result<void> fits = check_request(engine, request); !fits.ok()) {
      events.on_done(i, std::move(fits).error());
      ++done;
      continue;
    }
    scheduler.submit(RequestId{static_cast<int64_t>(i)}, std::move(request),
                     std::make_unique<BatchListener>(i, events, begun));
  }
  while (scheduler.has_work()) {
    if (events.on_progress && !events.on_progress(done)) {
      // What has begun ends with what it has; the others never were.
      for (const RequestId id : begun) scheduler.cancel(id);
      tell_ended(scheduler);
      return;
    }
    scheduler.step();
    done += tell_ended(scheduler);
  }
}

}  // namespace quire::engine
