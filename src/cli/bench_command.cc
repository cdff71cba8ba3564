// bench: how fast a model reads and writes here, at several depths, batches and codecs.
//
// A test is warmed up once, then repeated; the median and the outer deciles are shown. Decoding is
// judged against the rate at which this machine reads memory, measured in the same run: a token
// needs all weights and its sequence's keys and values once.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/byte_size.h"
#include "base/huge_buffer.h"
#include "base/machine.h"
#include "base/thread_pool.h"
#include "base/utf8.h"
#include "cli/builtin_text.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/option_parser.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/report.h"
#include "cli/session.h"
#include "formats/printable.h"

namespace quire::cli {
namespace {

using engine::Engine;
using engine::Sequence;
using formats::Json;

enum class Format : uint8_t { kTable, kJson, kCsv, kMarkdown };

struct BenchOptions {
  ModelOptions model;
  ComputeOptions compute;
  OutputOptions output;
  std::vector<int64_t> prefill = {512};
  int64_t decode = 32;
  std::vector<int64_t> depth = {0};
  std::vector<int64_t> batch = {1};
  std::vector<kv::KvCodecs> codecs = {kv::KvCodecs{}};
  int64_t repetitions = 5;
  Format format = Format::kTable;
};

struct BenchResult {
  std::string test;  // "pp512", "tg32"
  int64_t depth = 0;
  int64_t batch = 1;
  std::string kv;
  int32_t threads = 1;
  std::vector<double> tok_s;             // one a repetition
  std::optional<double> limit_fraction;  // of the memory's rate; nothing for prefill
};

/// Bytes a second that `threads` threads read from memory, the best of a few tries.
Result<double> measure_read_rate(int32_t threads) {
  constexpr size_t kBytes = size_t{256} << 20;
  constexpr int32_t kChunks = 64;
  QUIRE_TRY(HugeBuffer buffer, HugeBuffer::allocate(kBytes));
  const std::span<uint64_t> words = buffer.as<uint64_t>();
  std::ranges::fill(words, 1);  // so that every page is really there
  ThreadPool pool(threads);
  const size_t chunk_words = words.size() / kChunks;
  std::array<uint64_t, kChunks> sums{};
  double best_ms = 1e9;
  for (int attempt = 0; attempt < 3; ++attempt) {
    const Stopwatch watch;
    pool.parallel(kChunks, [&](int32_t chunk) {
      const auto part = words.subspan(static_cast<size_t>(chunk) * chunk_words, chunk_words);
      sums[static_cast<size_t>(chunk)] = std::accumulate(part.begin(), part.end(), uint64_t{0});
    });
    best_ms = std::min(best_ms, watch.ms());
  }
  QUIRE_CHECK_EQ(std::accumulate(sums.begin(), sums.end(), uint64_t{0}), chunk_words * kChunks);
  return static_cast<double>(kBytes) * 1000.0 / best_ms;
}

class Bench {
 public:
  Bench(const Environment& env, const BenchOptions& options, Output& output)
      : env_(env), options_(options), output_(output), machine_(inspect_machine(env.files)) {}

  Result<void> execute() {
    QUIRE_TRY(loaded_, load_model(env_, options_.model, "bench", output_));
    for (const kv::KvCodecs codecs : options_.codecs) QUIRE_TRY_VOID(measure_codec(codecs));
    output_.clear_progress();
    output_.text(for_people());
    return output_.finish(document());
  }

 private:
  Result<void> measure_codec(kv::KvCodecs codecs) {
    warn_of_coarse_codecs(output_, codecs);
    QUIRE_TRY(engine_, Engine::create(*loaded_.model,
                                      engine_options(env_, options_.compute, {.kv = codecs})));
    isa_ = engine_->isa();
    threads_ = engine_->num_threads();
    if (read_rate_ == 0.0) {
      QUIRE_TRY(read_rate_, measure_read_rate(threads_));
    }
    QUIRE_TRY_VOID(check_depths());
    for (const int64_t depth : options_.depth) {
      QUIRE_TRY_VOID(measure_prefill(depth));
      for (const int64_t batch : options_.batch) QUIRE_TRY_VOID(measure_decode(depth, batch));
    }
    return {};
  }

  Result<void> check_depths() const {
    const int64_t longest = std::max(
        options_.prefill.empty() ? 0 : std::ranges::max(options_.prefill), options_.decode);
    for (const int64_t depth : options_.depth) {
      QUIRE_TRY_VOID(engine::check_fits(engine_->window(), depth, longest));
    }
    return {};
  }

  std::vector<TokenId> text(int64_t count) const {
    return builtin_tokens(loaded_.model->tokenizer(), count);
  }

  /// A sequence of `depth` tokens on its own pages.
  Result<Sequence> deep_sequence(int64_t depth) {
    Sequence sequence = engine_->create_sequence();
    if (depth > 0) QUIRE_TRY_VOID(engine_->append(sequence, text(depth)));
    return sequence;
  }

  /// Runs `work` once to warm up, then as often as asked; each time handles `tokens` tokens.
  template <class Work>
  Result<void> repeat(BenchResult result, int64_t tokens, Work&& work) {
    for (int64_t i = 0; i <= options_.repetitions; ++i) {
      if (interrupted()) return Error{ErrorCode::kInterrupted, "interrupted before the end"};
      output_.progress(fmt::format("{} at {} x{}", result.test, result.depth, result.batch),
                       static_cast<double>(i) / static_cast<double>(options_.repetitions + 1));
      QUIRE_TRY(const double ms, work());
      if (i > 0) result.tok_s.push_back(static_cast<double>(tokens) * 1000.0 / ms);
    }
    if (result.test.starts_with("tg")) {
      result.limit_fraction = percentile(result.tok_s, 0.5) / limit(result);
    }
    results_.push_back(std::move(result));
    return {};
  }

  BenchResult describe(std::string test, int64_t depth, int64_t batch) const {
    return {.test = std::move(test),
            .depth = depth,
            .batch = batch,
            .kv = kv::name(engine_->geometry().codecs()),
            .threads = threads_};
  }

  Result<void> measure_prefill(int64_t depth) {
    QUIRE_TRY(const Sequence base, deep_sequence(depth));
    for (const int64_t count : options_.prefill) {
      const std::vector<TokenId> tokens = text(count);
      QUIRE_TRY_VOID(
          repeat(describe(fmt::format("pp{}", count), depth, 1), count, [&]() -> Result<double> {
            Sequence sequence = engine_->fork(base);
            const Stopwatch watch;
            QUIRE_TRY_VOID(engine_->append(sequence, tokens));
            return watch.ms();
          }));
    }
    return {};
  }

  Result<void> measure_decode(int64_t depth, int64_t batch) {
    if (options_.decode == 0) return {};
    if (batch > engine_->max_step_tokens()) {
      return Error{ErrorCode::kUsage,
                   fmt::format("--batch {} is more than a step takes ({}); raise "
                               "--prefill-chunk",
                               batch, engine_->max_step_tokens())};
    }
    // Each has its own pages: sequences that share them would read less.
    std::vector<Sequence> bases;
    for (int64_t i = 0; i < batch; ++i) {
      QUIRE_TRY(Sequence base, deep_sequence(depth));
      bases.push_back(std::move(base));
    }
    return repeat(describe(fmt::format("tg{}", options_.decode), depth, batch),
                  options_.decode * batch, [&]() { return decode_once(bases); });
  }

  Result<double> decode_once(const std::vector<Sequence>& bases) {
    std::vector<Sequence> sequences;
    for (const Sequence& base : bases) sequences.push_back(engine_->fork(base));
    const std::vector<TokenId> tokens = text(options_.decode + 1);
    std::vector<float> logits(sequences.size() *
                              static_cast<size_t>(loaded_.model->config().vocab));
    const Stopwatch watch;
    for (int64_t step = 0; step < options_.decode; ++step) {
      std::vector<engine::StepItem> items;
      for (Sequence& sequence : sequences) {
        items.push_back({.sequence = &sequence,
                         .tokens = std::span(tokens).subspan(static_cast<size_t>(step) + 1, 1)});
      }
      QUIRE_TRY_VOID(engine_->step(items, logits));
    }
    return watch.ms();
  }

  /// Tokens a second if reading memory were all there is to do. Embedding rows are looked up, not
  /// streamed, unless the head is the embedding.
  double limit(const BenchResult& result) const {
    const model::Weights& weights = loaded_.model->weights();
    const int64_t looked_up = weights.head.empty() ? 0 : weights.embedding.bytes();
    const auto streamed = static_cast<double>(loaded_.model->weights_bytes() - looked_up);
    const auto cached =
        static_cast<double>(engine_->geometry().used_bytes(result.depth + options_.decode / 2));
    const auto batch = static_cast<double>(result.batch);
    return batch * read_rate_ / (streamed + batch * cached);
  }

  static Json result_json(const BenchResult& r) {
    Json json;
    json.set("test", r.test);
    json.set("depth", r.depth);
    json.set("batch", r.batch);
    json.set("kv", r.kv);
    json.set("threads", int64_t{r.threads});
    json.set("tok_s_median", percentile(r.tok_s, 0.5));
    json.set("p10", percentile(r.tok_s, 0.1));
    json.set("p90", percentile(r.tok_s, 0.9));
    json.set("limit_fraction", r.limit_fraction ? Json(*r.limit_fraction) : Json());
    return json;
  }

  Json document() const {
    Json results(Json::Array{});
    for (const BenchResult& result : results_) results.push_back(result_json(result));
    Json json;
    json.set("model", utf8_sanitized(loaded_.model->path()));
    json.set("machine", machine_.cpu_name);
    json.set("isa", isa_);
    json.set("threads", int64_t{threads_});
    json.set("weights_bytes", loaded_.model->weights_bytes());
    json.set("read_bytes_per_second", read_rate_);
    json.set("repetitions", options_.repetitions);
    json.set("results", std::move(results));
    return json;
  }

  std::string heading() const {
    return fmt::format("{}, {} of weights; {}, {}, {} thread{}, reads {:.1f} GB/s; median of {}\n",
                       loaded_.model->path(), format_bytes(loaded_.model->weights_bytes()),
                       machine_.cpu_name, isa_, threads_, threads_ == 1 ? "" : "s",
                       read_rate_ / 1e9, options_.repetitions);
  }

  std::string for_people() const {
    switch (options_.format) {
      case Format::kCsv:
        return rows("{},{},{},{},{},{:.3f},{:.3f},{:.3f},{}\n",
                    "test,depth,batch,kv,threads,tok_s_median,p10,p90,limit_fraction\n");
      case Format::kMarkdown:
        return heading() + "\n" +
               rows("| {} | {} | {} | {} | {} | {:.1f} | {:.1f} | {:.1f} | {} |\n",
                    "| test | depth | batch | kv | threads | tok/s | p10 | p90 | of the limit |\n"
                    "|---|--:|--:|---|--:|--:|--:|--:|--:|\n");
      case Format::kTable:
      case Format::kJson:
        break;
    }
    return heading() +
           rows("{:<8} {:>7} {:>6} {:<10} {:>7} {:>10.1f} {:>10.1f} {:>10.1f} {:>13}\n",
                fmt::format("{:<8} {:>7} {:>6} {:<10} {:>7} {:>10} {:>10} {:>10} {:>13}\n", "test",
                            "depth", "batch", "kv", "threads", "tok/s", "p10", "p90",
                            "of the limit"));
  }

  std::string rows(std::string_view pattern, std::string_view first) const {
    std::string out(first);
    for (const BenchResult& r : results_) {
      const std::string fraction = r.limit_fraction ? fmt::format("{:.3f}", *r.limit_fraction) : "";
      out += fmt::format(fmt::runtime(pattern), r.test, r.depth, r.batch, r.kv, r.threads,
                         percentile(r.tok_s, 0.5), percentile(r.tok_s, 0.1),
                         percentile(r.tok_s, 0.9), fraction);
    }
    return out;
  }

  const Environment& env_;
  const BenchOptions& options_;
  Output& output_;
  const Machine machine_;
  LoadedModel loaded_;
  std::unique_ptr<Engine> engine_;
  std::string isa_;
  int32_t threads_ = 1;
  double read_rate_ = 0.0;  // bytes a second
  std::vector<BenchResult> results_;
};

Result<void> parse_format(BenchOptions& options, std::string_view option, std::string_view value) {
  if (value == "table") {
    options.format = Format::kTable;
  } else if (value == "json") {
    options.format = Format::kJson;
  } else if (value == "csv") {
    options.format = Format::kCsv;
  } else if (value == "md" || value == "markdown") {
    options.format = Format::kMarkdown;
  } else {
    return Error{ErrorCode::kUsage, fmt::format("{} wants table, json, csv or md, not '{}'", option,
                                                formats::printable(value))};
  }
  return {};
}

Result<void> run_bench(const Command& self, const Environment& env,
                       std::span<const std::string> args) {
  BenchOptions options;
  OptionParser parser("quire bench");
  declare(parser, options.model);
  parser.heading("What is measured");
  parser.add({{"--prefill"},
              "LIST",
              "tokens of prompt to read (default 512; 0: no such test)",
              store_list(options.prefill, 0, INT32_MAX)});
  parser.add({{"--decode"},
              "N",
              "tokens to write (default 32; 0: no such test)",
              store_int(options.decode, 0, INT32_MAX)});
  parser.add({{"--depth"},
              "LIST",
              "tokens that are in the cache already (default 0)",
              store_list(options.depth, 0, INT32_MAX)});
  parser.add({{"--batch"},
              "LIST",
              "sequences that decode in one step, on pages of their own (default 1)",
              store_list(options.batch, 1, 4096)});
  parser.add({{"--kv"}, "LIST", "codecs (default f16)", store_kv_list(options.codecs)});
  parser.add({{"-r", "--repetitions"},
              "N",
              "after one warm-up (default 5)",
              store_int(options.repetitions, 1, 1000)});
  parser.add({{"--format"},
              "table|json|csv|md",
              "how to print (default table)",
              [&options](std::string_view option, std::string_view value) {
                return parse_format(options, option, value);
              }});
  declare_greedy(parser);
  declare(parser, options.compute);
  declare(parser, options.output);
  QUIRE_TRY(const bool helped, parse_or_help(self, env, parser, args));
  if (helped) return {};
  std::erase(options.prefill, 0);
  options.output.json |= options.format == Format::kJson;
  Output output(env, options.output);
  return Bench(env, options, output).execute();
}

}  // namespace

const Command kBenchCommand = {
    .name = "bench",
    .arguments = "MODEL [options]",
    .summary = "measure reading and writing speed",
    .example =
        "  quire bench model.gguf\n"
        "  quire bench model.gguf --prefill 128,512 --decode 64 --depth 0,2048 --format md\n",
    .run = run_bench,
};

}  // namespace quire::cli
