// loadtest: puts load on an OpenAI-compatible server, ours or another's, and says how it held.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/option_parser.h"
#include "cli/options.h"
#include "cli/output.h"
#include "formats/printable.h"
#include "loadtest/load_run.h"
#include "loadtest/report.h"
#include "loadtest/server_counters.h"

namespace quire::cli {
namespace {

using loadtest::Load;
using loadtest::Report;
using loadtest::ReportFormat;
using loadtest::Summary;

constexpr int64_t kMostConcurrency = 1024;
constexpr int64_t kMostConversations = 1'000'000;

struct LoadtestOptions {
  std::vector<std::string> urls;
  std::vector<int64_t> concurrency = {1, 4, 16};
  std::vector<int64_t> rates;
  std::optional<int64_t> find_most;
  std::optional<int64_t> conversations;
  int64_t seconds = 60;
  int64_t request_seconds = 120;
  loadtest::Workload workload;
  int64_t seed = 0;
  int64_t max_tokens = 64;
  bool ignore_eos = false;
  std::string model;
  std::optional<double> ttft_ms, tpot_ms, e2e_ms, share;
  bool remote = false;
  std::optional<std::string> api_key_env;
  ReportFormat format = ReportFormat::kTable;
  std::string svg;
  OutputOptions output;
};

Result<void> parse_format(ReportFormat& format, std::string_view option, std::string_view value) {
  if (value == "table") {
    format = ReportFormat::kTable;
  } else if (value == "md" || value == "markdown") {
    format = ReportFormat::kMarkdown;
  } else if (value == "csv") {
    format = ReportFormat::kCsv;
  } else if (value == "jsonl") {
    format = ReportFormat::kJsonLines;
  } else {
    return Error{ErrorCode::kUsage, fmt::format("{} wants table, md, csv or jsonl, not '{}'",
                                                option, formats::printable(value))};
  }
  return {};
}

void declare_load(OptionParser& parser, LoadtestOptions& options) {
  parser.heading("The load");
  parser.add({{"--concurrency"},
              "LIST",
              "conversations at once, each load after the other (default 1,4,16)",
              store_list(options.concurrency, 1, kMostConcurrency)});
  parser.add({{"--rate"},
              "LIST",
              "instead: conversations that begin a second, at random times, whatever the server "
              "does",
              store_list(options.rates, 1, 10'000)});
  parser.add({{"--find-max"},
              "MOST",
              "instead: look for the largest concurrency up to MOST that holds the objectives",
              store_int(options.find_most, 1, kMostConcurrency)});
  parser.add({{"--conversations"},
              "N",
              "of each load (default 8 for each at once, 8 seconds' worth at a rate; at least 16)",
              store_int(options.conversations, 1, kMostConversations)});
  parser.add({{"--seconds"},
              "S",
              "after which no conversation of a load begins (default 60)",
              store_int(options.seconds, 1, 86'400)});
  parser.add({{"--timeout"},
              "S",
              "a request that takes longer has failed (default 120)",
              store_int(options.request_seconds, 1, 86'400)});
}

void declare_workload(OptionParser& parser, LoadtestOptions& options) {
  parser.heading("What is asked");
  parser.add({{"--prompt-words"},
              "N",
              "of each question (default 200); about a token each",
              store_int(options.workload.prompt_words, 0, 1'000'000)});
  parser.add({{"--shared-words"},
              "N",
              "of a system message that all conversations share (default 0)",
              store_int(options.workload.shared_words, 0, 1'000'000)});
  parser.add({{"--turns"},
              "N",
              "questions of a conversation, each after the answer to the one before (default 1)",
              store_int(options.workload.turns, 1, 1000)});
  parser.add({{"-n", "--max-tokens"},
              "N",
              "tokens of an answer at most (default 64)",
              store_int(options.max_tokens, 1, 1'000'000)});
  parser.add({{"--ignore-eos"},
              "",
              "ask servers that can to go on to -n tokens",
              set(options.ignore_eos)});
  parser.add(
      {{"--model"}, "NAME", "(default: the first that the server lists)", store(options.model)});
  parser.add(
      {{"--seed"}, "S", "of words and times (default 0)", store_int(options.seed, 0, INT64_MAX)});
}

void declare_loadtest(OptionParser& parser, LoadtestOptions& options) {
  parser.positional(options.urls, 1);
  declare_load(parser, options);
  declare_workload(parser, options);
  parser.heading("Objectives");
  parser.add({{"--ttft-ms"}, "MS", "to the first token", store_number(options.ttft_ms)});
  parser.add({{"--tpot-ms"}, "MS", "for each further one", store_number(options.tpot_ms)});
  parser.add({{"--e2e-ms"}, "MS", "for the whole answer", store_number(options.e2e_ms)});
  parser.add({{"--share"},
              "PERCENT",
              "of requests that must meet all of them (default 95)",
              store_number(options.share)});
  parser.heading("The server");
  parser.add({{"--remote"}, "", "allow an address that is not this machine", set(options.remote)});
  parser.add({{"--api-key-env"},
              "VARIABLE",
              "the environment variable that holds the key",
              store(options.api_key_env)});
  parser.add({{"--format"},
              "table|md|csv|jsonl",
              "how to print (default table)",
              [&options](std::string_view option, std::string_view value) {
                return parse_format(options.format, option, value);
              }});
  parser.add({{"--svg"}, "FILE", "draw latency against throughput", store(options.svg)});
  declare(parser, options.output);
}

Result<loadtest::Target> target_of(const LoadtestOptions& options) {
  if (options.urls.empty()) {
    return Error{ErrorCode::kUsage, "loadtest needs the address of a server: http://HOST:PORT"};
  }
  loadtest::Target target{.max_tokens = options.max_tokens, .ignore_eos = options.ignore_eos};
  QUIRE_TRY(target.address, loadtest::parse_address(options.urls.front()));
  if (!options.remote && !loadtest::is_loopback(target.address)) {
    return Error{ErrorCode::kUsage,
                 fmt::format("{} is not this machine; put load on a server that is yours to load, "
                             "and say --remote",
                             formats::printable(target.address.host))};
  }
  if (options.api_key_env) {
    const char* key = std::getenv(options.api_key_env->c_str());
    if (key == nullptr || *key == '\0') {
      return Error{ErrorCode::kUsage, fmt::format("the environment has no variable {}",
                                                  formats::printable(*options.api_key_env))};
    }
    target.api_key = key;
    if (target.api_key.find_first_of("\r\n") != std::string::npos) {
      return Error{ErrorCode::kUsage, fmt::format("the key in {} holds a line end",
                                                  formats::printable(*options.api_key_env))};
    }
  }
  return target;
}

Result<loadtest::Objectives> objectives_of(const LoadtestOptions& options) {
  loadtest::Objectives objectives;
  const auto seconds = [](const std::optional<double>& ms) {
    return ms ? std::optional(*ms / 1000.0) : std::nullopt;
  };
  objectives.ttft = seconds(options.ttft_ms);
  objectives.tpot = seconds(options.tpot_ms);
  objectives.e2e = seconds(options.e2e_ms);
  if (options.share) objectives.share = *options.share / 100.0;
  if (!(objectives.share > 0.0 && objectives.share <= 1.0)) {
    return Error{ErrorCode::kUsage, "--share wants a percentage above 0, at most 100"};
  }
  if (options.find_most && !objectives.any()) {
    return Error{ErrorCode::kUsage,
                 "--find-max needs an objective: --ttft-ms, --tpot-ms or --e2e-ms"};
  }
  return objectives;
}

class Loadtest {
 public:
  Loadtest(const Environment& env, const LoadtestOptions& options)
      : env_(env), options_(options), output_(env, options.output) {}

  Result<void> execute() {
    QUIRE_TRY(target_, target_of(options_));
    QUIRE_TRY(report_.objectives, objectives_of(options_));
    target_.model = options_.model;
    if (target_.model.empty()) {
      QUIRE_TRY(target_.model, loadtest::first_model(target_, patience()));
    }
    report_.url = options_.urls.front();
    report_.model = target_.model;
    report_.workload = options_.workload;
    report_.workload.seed = static_cast<uint64_t>(options_.seed);
    report_.max_tokens = options_.max_tokens;
    run_loads();
    output_.clear_progress();
    if (report_.loads.empty()) return Error{ErrorCode::kInterrupted, ""};
    if (!options_.svg.empty()) {
      QUIRE_TRY_VOID(env_.files.write_atomically(
          options_.svg, formats::draw_svg(loadtest::report_chart(report_))));
    }
    output_.text(loadtest::report_text(report_, options_.format));
    QUIRE_TRY_VOID(output_.finish(loadtest::report_json(report_)));
    if (interrupted()) return Error{ErrorCode::kInterrupted, ""};
    return all_failed();
  }

 private:
  loadtest::Patience patience() const {
    return {std::chrono::steady_clock::now() + std::chrono::seconds(options_.request_seconds),
            interrupted};
  }

  void run_loads() {
    if (options_.find_most) {
      while (const auto next = loadtest::next_concurrency(report_.loads, *options_.find_most)) {
        if (!run({.concurrency = *next, .rate = {}})) return;
      }
      return;
    }
    if (!options_.rates.empty()) {
      for (const int64_t rate : options_.rates) {
        if (!run({.concurrency = {}, .rate = static_cast<double>(rate)})) return;
      }
      return;
    }
    for (const int64_t concurrency : options_.concurrency) {
      if (!run({.concurrency = concurrency, .rate = {}})) return;
    }
  }

  /// False when the user stops it.
  bool run(const Load& load) {
    constexpr int64_t kEach = 8;
    const double size = load.rate.value_or(static_cast<double>(load.concurrency.value_or(1)));
    loadtest::RunLimits limits{.seconds = static_cast<double>(options_.seconds),
                               .request_seconds = static_cast<double>(options_.request_seconds)};
    limits.conversations =
        options_.conversations.value_or(std::max<int64_t>(16, static_cast<int64_t>(size) * kEach));
    output_.progress(load.rate ? fmt::format("{:g} conversations a second", *load.rate)
                               : fmt::format("{} at once", *load.concurrency),
                     0.0);
    const loadtest::ServerCounters before = loadtest::read_counters(target_);
    loadtest::PageWatch watch(target_);
    const loadtest::RunResult result =
        loadtest::run_load(target_, workload(), load, limits, interrupted);
    const auto peak = watch.peak();
    if (result.records.empty()) return !interrupted();
    Summary summary = loadtest::summarize(load, result.records, result.seconds, report_.objectives);
    const loadtest::ServerCounters after = loadtest::read_counters(target_);
    summary.peak_pages = peak;
    summary.evicted_pages = grown(before.evicted_pages, after.evicted_pages);
    summary.preemptions = grown(before.preemptions, after.preemptions);
    report_.loads.push_back(std::move(summary));
    return !interrupted();
  }

  static std::optional<int64_t> grown(const std::optional<double>& before,
                                      const std::optional<double>& after) {
    if (!before || !after) return std::nullopt;
    return static_cast<int64_t>(*after - *before);
  }

  /// Each load asks what was not asked before, so that only what a load shares can be cached.
  loadtest::Workload workload() {
    loadtest::Workload workload = report_.workload;
    workload.seed += report_.loads.size();
    return workload;
  }

  Result<void> all_failed() const {
    for (const Summary& summary : report_.loads) {
      if (summary.ok > 0) return {};
    }
    return Error{ErrorCode::kIo, fmt::format("no request was answered; the first: {}",
                                             report_.loads.front().first_error)};
  }

  const Environment& env_;
  const LoadtestOptions& options_;
  Output output_;
  loadtest::Target target_;
  Report report_;
};

Result<void> run_loadtest(const Command& self, const Environment& env,
                          std::span<const std::string> args) {
  LoadtestOptions options;
  OptionParser parser("quire loadtest");
  declare_loadtest(parser, options);
  QUIRE_TRY(const bool helped, parse_or_help(self, env, parser, args));
  if (helped) return {};
  return Loadtest(env, options).execute();
}

}  // namespace

const Command kLoadtestCommand = {
    .name = "loadtest",
    .arguments = "URL [options]",
    .summary = "put load on a server and measure",
    .example =
        "  quire loadtest http://127.0.0.1:8080\n"
        "  quire loadtest http://127.0.0.1:8080 --shared-words 1000 --turns 4 --svg load.svg\n"
        "  quire loadtest http://127.0.0.1:8080 --find-max 64 --ttft-ms 500 --tpot-ms 100\n",
    .run = run_loadtest,
};

}  // namespace quire::cli
