// score: how likely a model finds a text, token by token, and how its logits compare with others'.
#include <fmt/format.h>

#include <cmath>

#include "base/byte_size.h"
#include "base/utf8.h"
#include "cli/byte_sink.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/option_parser.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/pieces.h"
#include "cli/report.h"
#include "cli/session.h"
#include "engine/logit_compare.h"
#include "engine/logprobs.h"
#include "engine/npy.h"

namespace quire::cli {
namespace {

using engine::Engine;
using formats::Json;

struct ScoreOptions {
  ModelOptions model;
  PromptOptions prompt;
  CacheOptions cache;
  ComputeOptions compute;
  OutputOptions output;
  std::string logits_file;
  std::string compare_file;
};

/// Reads the text once, row by row: no more than a chunk of logits is ever held.
class Scoring {
 public:
  Scoring(const Environment& env, const ScoreOptions& options, Output& output)
      : env_(env), options_(options), output_(output) {}

  Result<void> execute() {
    warn_of_coarse_codecs(output_, options_.cache.kv);
    QUIRE_TRY(loaded_, load_model(env_, options_.model, "score", output_));
    QUIRE_TRY(prompt_, read_prompt(env_, loaded_.prompt_maker(), options_.prompt,
                                   DefaultRendering::kRaw, output_));
    if (prompt_.tokens.empty()) {
      return Error{ErrorCode::kUsage, "the text has no tokens: nothing to score"};
    }
    QUIRE_TRY(engine_, Engine::create(*loaded_.model,
                                      engine_options(env_, options_.compute, options_.cache)));
    QUIRE_TRY_VOID(engine::check_fits(engine_->window(), num_tokens(), 0));
    QUIRE_TRY_VOID(open_files());
    engine::Sequence sequence = engine_->create_sequence();
    QUIRE_TRY_VOID(engine_->append_all_logits(
        sequence, prompt_.tokens,
        [this](int64_t index, std::span<const float> logits) { return take(index, logits); }));
    if (sink_) QUIRE_TRY_VOID(sink_->commit());
    output_.clear_progress();
    output_.text(for_people());
    return output_.finish(document());
  }

 private:
  int64_t num_tokens() const { return static_cast<int64_t>(prompt_.tokens.size()); }
  int64_t vocab() const { return loaded_.model->config().vocab; }

  Result<void> open_files() {
    if (!options_.compare_file.empty()) {
      QUIRE_TRY(engine::NpyMatrix reference,
                engine::NpyMatrix::open(env_.files, options_.compare_file));
      if (reference.rows() != num_tokens() || reference.cols() != vocab()) {
        return Error{ErrorCode::kBadFile,
                     fmt::format("{} holds logits [{}, {}], but this text and model have [{}, {}]",
                                 options_.compare_file, reference.rows(), reference.cols(),
                                 num_tokens(), vocab())};
      }
      reference_ = std::move(reference);
      reference_row_.resize(static_cast<size_t>(vocab()));
    }
    if (options_.logits_file.empty()) return {};
    QUIRE_TRY(ByteSink sink, ByteSink::create(options_.logits_file));
    sink_.emplace(std::move(sink));
    const std::string header = engine::npy_header(num_tokens(), vocab());
    return sink_->write(std::as_bytes(std::span(header)));
  }

  /// The logits after token `index`: they judge the one that follows.
  Result<void> take(int64_t index, std::span<const float> logits) {
    if (interrupted()) return Error{ErrorCode::kInterrupted, "interrupted; nothing was written"};
    output_.progress("scoring", static_cast<double>(index + 1) / static_cast<double>(num_tokens()));
    if (index + 1 < num_tokens()) {
      const TokenId next = prompt_.tokens[static_cast<size_t>(index + 1)];
      logprobs_.push_back(engine::logprob(logits, next));
    }
    if (reference_) {
      reference_->read_row(index, reference_row_);
      comparison_.add(reference_row_, logits);
    }
    if (sink_) return sink_->write(std::as_bytes(logits));
    return {};
  }

  double total_nll() const {
    double sum = 0.0;
    for (const double logprob : logprobs_) sum -= logprob;
    return sum;
  }

  /// Mean over the tokens that something stood before.
  std::optional<double> nll() const {
    if (logprobs_.empty()) return std::nullopt;
    return total_nll() / static_cast<double>(logprobs_.size());
  }

  Json document() const {
    Json logprobs(Json::Array{});
    logprobs.push_back(Json());
    for (const double logprob : logprobs_) logprobs.push_back(logprob);
    Json json;
    json.set("tokens", num_tokens());
    json.set("ids", ids_json(prompt_.tokens));
    json.set("logprobs", std::move(logprobs));
    json.set("nll", nll() ? Json(*nll()) : Json());
    json.set("nll_sum", total_nll());
    json.set("perplexity", nll() ? Json(std::exp(*nll())) : Json());
    if (reference_) {
      Json kl;
      kl.set("mean", comparison_.kl_mean());
      kl.set("p99", comparison_.kl_p99());
      kl.set("max", comparison_.kl_max());
      json.set("kl", std::move(kl));
      json.set("top1_agreement", comparison_.top1_agreement());
      json.set("max_abs_diff", comparison_.max_abs_diff());
      json.set("identical", comparison_.identical());
    }
    json.set("model", utf8_sanitized(loaded_.model->path()));
    json.set("cache", name(engine_->cache()));
    json.set("kv", kv::name(engine_->geometry().codecs()));
    return json;
  }

  std::string for_people() const {
    std::string out = fmt::format("{} tokens", format_count(num_tokens()));
    if (nll()) out += fmt::format(", nll {:.6f}, perplexity {:.4f}", *nll(), std::exp(*nll()));
    out += '\n';
    if (reference_) {
      out += fmt::format(
          "against {}: KL mean {:.3e}, p99 {:.3e}, max {:.3e}; top-1 agreement "
          "{:.2f} %; {}\n",
          options_.compare_file, comparison_.kl_mean(), comparison_.kl_p99(), comparison_.kl_max(),
          comparison_.top1_agreement() * 100.0,
          comparison_.identical()
              ? std::string("identical, bit for bit")
              : fmt::format("largest difference {:.3e}", comparison_.max_abs_diff()));
    }
    return out;
  }

  const Environment& env_;
  const ScoreOptions& options_;
  Output& output_;
  LoadedModel loaded_;
  engine::Prompt prompt_;
  std::unique_ptr<Engine> engine_;
  std::optional<engine::NpyMatrix> reference_;
  std::vector<float> reference_row_;
  engine::LogitComparison comparison_;
  std::optional<ByteSink> sink_;
  std::vector<double> logprobs_;
};

Result<void> run_score(const Command& self, const Environment& env,
                       std::span<const std::string> args) {
  ScoreOptions options;
  OptionParser parser("quire score");
  declare(parser, options.model);
  declare(parser, options.prompt);
  parser.heading("Logits");
  parser.add({{"--logits"},
              "FILE.npy",
              "write the logits of every token: float32 [tokens, vocab]",
              store(options.logits_file)});
  parser.add({{"--compare"},
              "FILE.npy",
              "report KL and top-1 agreement against the logits in such a file",
              store(options.compare_file)});
  declare_greedy(parser);
  declare(parser, options.cache);
  declare(parser, options.compute);
  declare(parser, options.output);
  QUIRE_TRY(const bool helped, parse_or_help(self, env, parser, args));
  if (helped) return {};
  Output output(env, options.output);
  return Scoring(env, options, output).execute();
}

}  // namespace

const Command kScoreCommand = {
    .name = "score",
    .arguments = "MODEL [options]",
    .summary = "log-probabilities of a text",
    .example =
        "  quire score model.gguf -f report.txt\n"
        "  quire score model.gguf -f report.txt --compare reference.npy --json\n",
    .run = run_score,
};

}  // namespace quire::cli
