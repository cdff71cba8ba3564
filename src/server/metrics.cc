#include "server/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace quire::server {
namespace {

constexpr std::array kFirstTokenBounds = {.001, .005, .01, .02,  .04,  .06,  .08, .1,
                                          .25,  .5,   .75, 1.,   2.5,  5.,   7.5, 10.,
                                          20.,  40.,  80., 160., 640., 2560.};
constexpr std::array kGapBounds = {.01, .025, .05, .075, .1,  .15, .2,  .3,  .4, .5,
                                   .75, 1.,   2.5, 5.,   7.5, 10., 20., 40., 80.};
constexpr std::array kRequestBounds = {.3,  .5,  .8,  1.,  1.5,  2.,   2.5,  5.,   10.,   15.,  20.,
                                       30., 40., 50., 60., 120., 240., 480., 960., 1920., 7680.};

class Page {
 public:
  explicit Page(std::string_view model) : model_label_(fmt::format("model_name=\"{}\"", model)) {}

  /// A number under our name, and under vLLM's if it has one there.
  void add(const Gauge& gauge) {
    const std::string_view type = gauge.is_counter ? "counter" : "gauge";
    head(fmt::format("quire_{}", gauge.name), gauge.help, type);
    value(fmt::format("quire_{}", gauge.name), gauge.labels, gauge.value);
    if (gauge.alias.empty()) return;
    const std::string alias = fmt::format("vllm:{}", gauge.alias);
    head(alias, gauge.help, type);
    value(alias, joined(model_label_, gauge.labels), gauge.value);
  }

  void add(std::string_view name, std::string_view help, const Histogram& histogram) {
    for (const auto& [full, labels] : {std::pair{fmt::format("quire_{}", name), std::string()},
                                       std::pair{fmt::format("vllm:{}", name), model_label_}}) {
      head(full, help, "histogram");
      int64_t below = 0;
      for (size_t i = 0; i < histogram.counts().size(); ++i) {
        below += histogram.counts()[i];
        const std::string bound = i < histogram.bounds().size()
                                      ? fmt::format("le=\"{}\"", histogram.bounds()[i])
                                      : std::string("le=\"+Inf\"");
        value(full + "_bucket", joined(labels, bound), static_cast<double>(below));
      }
      value(full + "_sum", labels, histogram.sum());
      value(full + "_count", labels, static_cast<double>(below));
    }
  }

  void head(std::string_view name, std::string_view help, std::string_view type) {
    fmt::format_to(std::back_inserter(text_), "# HELP {} {}\n# TYPE {} {}\n", name, help, name,
                   type);
  }
  void value(std::string_view name, std::string_view labels, double number) {
    if (labels.empty()) {
      fmt::format_to(std::back_inserter(text_), "{} {}\n", name, number);
    } else {
      fmt::format_to(std::back_inserter(text_), "{}{{{}}} {}\n", name, labels, number);
    }
  }
  static std::string joined(std::string_view a, std::string_view b) {
    return a.empty() || b.empty() ? fmt::format("{}{}", a, b) : fmt::format("{},{}", a, b);
  }
  const std::string& model_label() const { return model_label_; }
  std::string take() { return std::move(text_); }

 private:
  const std::string model_label_;
  std::string text_;
};

Gauge counter(std::string_view name, std::string_view help, int64_t value) {
  return {.name = name,
          .help = help,
          .value = static_cast<double>(value),
          .is_counter = true,
          .alias = name};
}

}  // namespace

std::string label_value(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

void Histogram::observe(double value) {
  const auto bound = std::ranges::lower_bound(bounds_, value);
  ++counts_[static_cast<size_t>(bound - bounds_.begin())];
  sum_ += value;
}

Metrics::Metrics()
    : ttft_(kFirstTokenBounds),
      gap_(kGapBounds),
      e2e_(kRequestBounds),
      queue_(kRequestBounds),
      prefill_(kRequestBounds),
      decode_(kRequestBounds) {
  for (const char* reason : {"stop", "length", "tool_calls", "abort", "error"})
    finished_[reason] = 0;
}

void Metrics::count_prompt(int64_t prompt_tokens, int64_t cached_tokens) {
  const std::scoped_lock lock(mutex_);
  prompt_tokens_ += prompt_tokens;
  cached_tokens_ += cached_tokens;
}

void Metrics::count_tokens(int64_t generated) {
  const std::scoped_lock lock(mutex_);
  generated_tokens_ += generated;
}

void Metrics::observe_gap(double seconds) {
  const std::scoped_lock lock(mutex_);
  gap_.observe(seconds);
}

void Metrics::observe_first_token(double seconds) {
  const std::scoped_lock lock(mutex_);
  ttft_.observe(seconds);
}

void Metrics::count_answer(std::string_view finish_reason, const AnswerTimes& times) {
  const std::scoped_lock lock(mutex_);
  ++finished_[std::string(finish_reason)];
  e2e_.observe(times.e2e_s);
  queue_.observe(times.queue_s);
  prefill_.observe(times.prefill_s);
  decode_.observe(times.decode_s);
}

void Metrics::count_response(std::string_view route, int status) {
  const std::scoped_lock lock(mutex_);
  ++responses_[{std::string(route), status}];
}

std::string Metrics::render(std::string_view model, std::span<const Gauge> gauges) const {
  Page page(label_value(model));
  for (const Gauge& gauge : gauges) page.add(gauge);
  const std::scoped_lock lock(mutex_);
  page.add(
      counter("prompt_tokens_total", "Tokens of prompts, cached ones included", prompt_tokens_));
  page.add(counter("generation_tokens_total", "Tokens generated", generated_tokens_));
  page.add(counter("prefix_cache_queries_total", "Prompt tokens looked up in the prefix tree",
                   prompt_tokens_));
  page.add(
      counter("prefix_cache_hits_total", "Prompt tokens found in the prefix tree", cached_tokens_));
  for (const auto& [name, label] :
       {std::pair{std::string("quire_request_success_total"), std::string()},
        std::pair{std::string("vllm:request_success_total"), page.model_label()}}) {
    page.head(name, "Answers that ended, by reason", "counter");
    for (const auto& [reason, count] : finished_) {
      page.value(name, Page::joined(label, fmt::format("finished_reason=\"{}\"", reason)),
                 static_cast<double>(count));
    }
  }
  page.head("quire_http_responses_total", "Replies by route and status", "counter");
  for (const auto& [key, count] : responses_) {
    page.value("quire_http_responses_total",
               fmt::format("route=\"{}\",status=\"{}\"", label_value(key.first), key.second),
               static_cast<double>(count));
  }
  page.add("time_to_first_token_seconds", "From a request's arrival to its first token", ttft_);
  page.add("inter_token_latency_seconds", "Between two tokens of an answer", gap_);
  page.add("e2e_request_latency_seconds", "From a request's arrival to its end", e2e_);
  page.add("request_queue_time_seconds", "From arrival until it is computed on", queue_);
  page.add("request_prefill_time_seconds", "From then to the first token", prefill_);
  page.add("request_decode_time_seconds", "From the first token to the last", decode_);
  return page.take();
}

}  // namespace quire::server
