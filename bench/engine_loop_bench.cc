// engine_loop_bench: what callers of one engine cost each other.
//
//   quire_engine_loop_bench MODEL [threads=2] [rounds=3] [prompt=6000] [clock=wall|cpu]
//
// many: tokens a second of one stream and of 16 together. stall: the 95th percentile of the gaps
// between one stream's tokens (and between those of four), quiet and while another's prompt is
// read. warm: time to first token of a prompt of 2,000 tokens, cold, and again with 32 tokens more.
// Each line is one round, in which all settings take turns; the last is the median. With clock=cpu
// and one thread all times are the process's own processor time, for machines that are busy.
#include <fmt/core.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"
#include "engine/engine_loop.h"

namespace quire::engine {
namespace {

clockid_t measured_clock = CLOCK_MONOTONIC;

double now_ms() {
  timespec now{};
  clock_gettime(measured_clock, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

/// When things happened to one request.
struct Record {
  double submitted_ms = 0.0;
  std::vector<double> token_ms;
  std::promise<void> done;
  std::promise<void> second_token;
};

class Recorder : public RequestListener {
 public:
  explicit Recorder(Record& record) : record_(record) {}
  void on_start(const Reuse&) override {}
  void on_prefill(int64_t, int64_t) override {}
  void on_token(const TokenEvent&) override {
    record_.token_ms.push_back(now_ms());
    if (record_.token_ms.size() == 2) record_.second_token.set_value();
  }
  void on_done(Result<Generated> answer) override {
    if (!answer.ok()) fmt::print("{}\n", answer.error().message);
    record_.done.set_value();
  }

 private:
  Record& record_;
};

class Workload {
 public:
  Workload(const Model& model, Engine& engine)
      : model_(model),
        loop_(engine, {.scheduler = {.max_sequences = 16, .now_ms = now_ms}, .max_queue = 64}) {}

  /// Tokens that nobody has seen before.
  std::vector<TokenId> prompt(int64_t count) {
    std::uniform_int_distribution<int32_t> any(1000, model_.config().vocab - 1);
    std::vector<TokenId> tokens;
    for (int64_t i = 0; i < count; ++i) tokens.push_back({any(random_)});
    return tokens;
  }

  RequestId submit(Record& record, std::vector<TokenId> prompt, int64_t max_tokens) {
    Request request;
    request.prompt = std::move(prompt);
    request.options.max_tokens = max_tokens;
    for (int32_t id = 0; id < model_.config().vocab; ++id) {
      if (!model_.is_end_of_generation({id})) continue;
      request.options.sampling.logit_bias.emplace_back(TokenId{id}, -1e6);
    }
    record.submitted_ms = now_ms();
    return loop_.submit(std::move(request), std::make_unique<Recorder>(record)).value();
  }

  void cancel(RequestId id) { loop_.cancel(id); }

  /// Tokens a second of so many streams together, once all of them decode.
  double rate(size_t streams) {
    constexpr int64_t kTokens = 64;
    std::vector<Record> records(streams);
    for (Record& record : records) submit(record, prompt(32), kTokens);
    for (Record& record : records) record.done.get_future().wait();
    double first = 0.0;
    double last = 0.0;
    for (const Record& record : records) {
      first = std::max(first, record.token_ms.front());
      last = std::max(last, record.token_ms.back());
    }
    int64_t tokens = 0;
    for (const Record& record : records) {
      tokens += std::ranges::count_if(record.token_ms, [&](double at) { return at > first; });
    }
    return 1000.0 * static_cast<double>(tokens) / (last - first);
  }

  struct Stall {
    double quiet_ms = 0.0;
    double busy_ms = 0.0;
    double prefill_s = 0.0;
  };
  Stall stall(size_t streams, int64_t prompt_tokens) {
    std::vector<Record> records(streams);
    std::vector<RequestId> ids;
    for (Record& record : records) ids.push_back(submit(record, prompt(100), 6000));
    for (Record& record : records) record.second_token.get_future().wait();
    const double begin = now_ms();
    while (now_ms() < begin + 1500) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    Record reader;
    submit(reader, prompt(prompt_tokens), 2);
    reader.done.get_future().wait();
    for (const RequestId id : ids) cancel(id);
    for (Record& record : records) record.done.get_future().wait();
    const double answered = reader.token_ms.front();
    return {.quiet_ms = p95_gap(records, begin, reader.submitted_ms),
            .busy_ms = p95_gap(records, reader.submitted_ms, answered),
            .prefill_s = (answered - reader.submitted_ms) / 1000.0};
  }

  double ttft(std::vector<TokenId> tokens) {
    Record record;
    submit(record, std::move(tokens), 2);
    record.done.get_future().wait();
    return record.token_ms.front() - record.submitted_ms;
  }

 private:
  static double p95_gap(const std::vector<Record>& records, double begin, double end) {
    std::vector<double> gaps;
    for (const Record& record : records) {
      for (size_t i = 1; i < record.token_ms.size(); ++i) {
        if (record.token_ms[i - 1] < begin || record.token_ms[i] > end) continue;
        gaps.push_back(record.token_ms[i] - record.token_ms[i - 1]);
      }
    }
    std::ranges::sort(gaps);
    return gaps.empty() ? 0.0 : gaps[gaps.size() * 95 / 100];
  }

  const Model& model_;
  EngineLoop loop_;
  std::mt19937 random_{1};
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// The text behind "name=" among the arguments.
std::string setting(int argc, char** argv, std::string_view name, std::string otherwise) {
  for (int i = 2; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (!argument.starts_with(name) || argument.substr(name.size(), 1) != "=") continue;
    return std::string(argument.substr(name.size() + 1));
  }
  return otherwise;
}

int run(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(
        "usage: quire_engine_loop_bench MODEL [threads=2] [rounds=3] [prompt=6000] "
        "[clock=wall|cpu]\n");
    return 2;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (setting(argc, argv, "clock", "wall") == "cpu") measured_clock = CLOCK_PROCESS_CPUTIME_ID;
  EngineOptions options;
  options.threads = std::stoi(setting(argc, argv, "threads", "2"));
  options.memory_bytes = int64_t{2} << 30;
  const int rounds = std::stoi(setting(argc, argv, "rounds", "3"));
  const int64_t prompt_tokens = std::stoll(setting(argc, argv, "prompt", "6000"));
  const auto model = Model::load(real_file_system(), argv[1], {}).value();
  const auto engine = Engine::create(*model, options).value();
  Workload workload(*model, *engine);
  std::vector<double> many, stall_one, stall_four, warm;
  for (int round = 0; round < rounds; ++round) {
    const double one = workload.rate(1);
    const double sixteen = workload.rate(16);
    many.push_back(sixteen / one);
    fmt::print("many   1: {:.1f} tok/s   16: {:.1f} tok/s   {:.2f}x\n", one, sixteen, many.back());
    for (const size_t streams : {1, 4}) {
      const Workload::Stall stall = workload.stall(streams, prompt_tokens);
      (streams == 1 ? stall_one : stall_four).push_back(stall.busy_ms / stall.quiet_ms);
      fmt::print(
          "stall  {}: quiet p95 {:.1f} ms   busy p95 {:.1f} ms   {:.2f}x   prompt in {:.1f} s\n",
          streams, stall.quiet_ms, stall.busy_ms, stall.busy_ms / stall.quiet_ms, stall.prefill_s);
    }
    std::vector<TokenId> tokens = workload.prompt(2000);
    const double cold = workload.ttft(tokens);
    const std::vector<TokenId> more = workload.prompt(32);
    tokens.insert(tokens.end(), more.begin(), more.end());
    const double hot = workload.ttft(tokens);
    warm.push_back(cold / hot);
    fmt::print("warm   cold {:.0f} ms   warm {:.1f} ms   {:.1f}x\n", cold, hot, warm.back());
  }
  fmt::print("median many {:.2f}x   stall of one {:.2f}x, of four {:.2f}x   warm {:.1f}x\n",
             median(many), median(stall_one), median(stall_four), median(warm));
  return 0;
}

}  // namespace
}  // namespace quire::engine

int main(int argc, char** argv) {
  return quire::engine::run(argc, argv);
}
