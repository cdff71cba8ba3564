// metrics.h: what the server counts, in Prometheus' text format: `quire_*`, and `vllm:*` for the
// dashboards that exist.
//
// Names and buckets of the aliases are those of vLLM's metrics page. Gauges are read when the page
// is asked for. Any thread.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quire::server {

class Histogram {
 public:
  explicit Histogram(std::span<const double> bounds)
      : bounds_(bounds), counts_(bounds.size() + 1) {}
  void observe(double value);

  std::span<const double> bounds() const { return bounds_; }
  /// Observations at or below each bound, and above all; not cumulative.
  std::span<const int64_t> counts() const { return counts_; }
  double sum() const { return sum_; }

 private:
  std::span<const double> bounds_;
  std::vector<int64_t> counts_;
  double sum_ = 0.0;
};

/// One answer, when it has ended.
struct AnswerTimes {
  double queue_s = 0.0;
  double prefill_s = 0.0;
  double decode_s = 0.0;
  double ttft_s = 0.0;
  double e2e_s = 0.0;
};

/// One number that is read when asked for.
struct Gauge {
  std::string_view name;  // without prefix
  std::string_view help;
  double value = 0.0;
  bool is_counter = false;
  std::string_view alias;   // after "vllm:"; empty: none
  std::string labels = "";  // "size=\"1\""
};

class Metrics {
 public:
  void count_prompt(int64_t prompt_tokens, int64_t cached_tokens);
  void count_tokens(int64_t generated);
  void observe_gap(double seconds);
  void observe_first_token(double seconds);
  void count_answer(std::string_view finish_reason, const AnswerTimes& times);
  void count_response(std::string_view route, int status);

  /// The whole page. `model` is the label model_name of the aliases.
  std::string render(std::string_view model, std::span<const Gauge> gauges) const;

 private:
  mutable std::mutex mutex_;  // guards everything
  int64_t prompt_tokens_ = 0;
  int64_t cached_tokens_ = 0;
  int64_t generated_tokens_ = 0;
  std::map<std::string, int64_t> finished_;
  std::map<std::pair<std::string, int>, int64_t> responses_;
  Histogram ttft_, gap_, e2e_, queue_, prefill_, decode_;

 public:
  Metrics();
};

/// `text` as the value of a label.
std::string label_value(std::string_view text);

}  // namespace quire::server
