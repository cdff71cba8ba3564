#include "cli/batch_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"
#include "cli/batch_input.h"
#include "cli/interrupt.h"
#include "cli/overflow.h"
#include "cli/pieces.h"
#include "cli/report.h"
#include "cli/session.h"
#include "engine/batch_generate.h"

namespace quire::cli {
namespace {

using engine::Generated;
using formats::Json;

// Decoding reads all weights once for all that run together; more would hold more pages at once.
constexpr int32_t kMostTogether = 16;

Error usage(std::string message) {
  return {ErrorCode::kUsage, std::move(message)};
}

Result<void> check_combination(const RunOptions& options) {
  if (options.profile) return usage("--profile is of one prompt: leave out --batch");
  if (!options.prompt.pieces.empty() || options.prompt.messages_file) {
    return usage("--batch already holds the prompts; leave out -p, -f and --messages");
  }
  const BeamOptions& beams = options.beams;
  if (options.choices > 1 || beams.beams || beams.length_penalty || beams.early_stopping) {
    return usage("--batch gives one sampled answer a line; leave out --choices and --beams");
  }
  if (options.beams.beams) {
    return usage("--batch draws or decodes greedily; leave out --beams, and call run for each");
  }
  return {};
}

class BatchRun {
 public:
  BatchRun(const Environment& env, const RunOptions& options, Output& output)
      : env_(env), options_(options), output_(output) {}

  Result<void> execute() {
    QUIRE_TRY_VOID(check_combination(options_));
    QUIRE_TRY_VOID(read_lines());
    QUIRE_TRY(loaded_, load_model(env_, options_.model, "run", output_));
    QUIRE_TRY_VOID(make_requests());
    QUIRE_TRY_VOID(create_engine());
    fit_windows();
    answer();
    return finish();
  }

 private:
  Result<void> read_lines() {
    const std::string& file = *options_.batch_file;
    const bool from_stdin = file == "-";
    QUIRE_TRY(const std::string text,
              from_stdin ? read_all(env_) : env_.files.read(file, kMaxPromptBytes));
    QUIRE_TRY(lines_, parse_batch(text, from_stdin ? "stdin" : file));
    return {};
  }

  Result<void> make_requests() {
    std::string prefix;
    if (options_.prompt.prefix_file) {
      QUIRE_TRY(prefix, env_.files.read(*options_.prompt.prefix_file, kMaxPromptBytes));
    }
    for (const BatchLine& line : lines_) {
      QUIRE_TRY(engine::Prompt prompt,
                make_prompt(loaded_.prompt_maker(), options_.prompt, prefix, line.prompt));
      engine::GenerateOptions generation;
      generation.sampling = resolve_sampling(options_.sampling, loaded_.model->sampling_defaults());
      generation.max_tokens = line.max_tokens ? line.max_tokens : options_.generation.max_tokens;
      generation.stop = options_.generation.stop;
      generation.draft.most = static_cast<int32_t>(options_.generation.draft);
      if (options_.logprobs) generation.logprobs = static_cast<int32_t>(*options_.logprobs);
      requests_.push_back({prompt.tokens, std::move(generation)});
      prompts_.push_back(std::move(prompt));
    }
    results_.resize(lines_.size());
    return {};
  }

  /// With pages set aside for as many sequences as fit, if they have to be.
  Result<void> create_engine() {
    engine::EngineOptions wanted = engine_options(env_, options_.compute, options_.cache);
    together_ = static_cast<int32_t>(std::min<size_t>(kMostTogether, lines_.size()));
    for (;; together_ /= 2) {
      wanted.static_sequences = together_;
      auto created = engine::Engine::create(*loaded_.model, wanted);
      const bool may_fit = !created.ok() && created.error().code == ErrorCode::kDoesNotFit &&
                           options_.cache.cache.kind == engine::CacheKind::kStatic;
      if (may_fit && together_ > 1) continue;
      QUIRE_TRY(engine_, std::move(created));
      return {};
    }
  }

  /// What --overflow and --fit-output make of each line. What does not fit is not asked.
  void fit_windows() {
    const PromptMaker maker = loaded_.prompt_maker();
    const auto render = [&](const context::ChatRequest& request) {
      return engine::chat_prompt(maker.tokenizer, *maker.chat_template, request);
    };
    ModelSummaries summaries(*loaded_.model, *engine_);
    for (size_t i = 0; i < requests_.size(); ++i) {
      auto fitted = fit_prompt({.maker = maker,
                                .window = engine_->window(),
                                .trained = loaded_.model->config().context,
                                .options = options_.generation,
                                .render = render,
                                .summarizer = summaries.summarizer()},
                               prompts_[i], requests_[i].options.max_tokens);
      reports_.emplace_back();
      if (!fitted.ok()) {
        refused_.emplace_back(i, misfit(i, fitted.error()));
        continue;
      }
      asked_.push_back(i);
      const bool changed = fitted->report.status == context::window::KeepPlan::Status::kChanged;
      if (changed || fitted->report.max_tokens_before) {
        output_.remark(lines_[i].prompt.name + ": " + context::window::one_line_of(fitted->report));
      }
      for (const std::string& note : fitted->report.notes) {
        output_.remark(lines_[i].prompt.name + ": " + note);
      }
      prompts_[i] = std::move(fitted->prompt);
      requests_[i].prompt = prompts_[i].tokens;
      requests_[i].options.max_tokens = fitted->report.max_tokens;
      reports_.back() = std::move(fitted->report);
    }
  }

  /// In the window's words, which clients of OpenAI's API look for, whoever found it out.
  Error misfit(size_t index, Error error) const {
    if (error.code != ErrorCode::kDoesNotFit || options_.generation.overflow) return error;
    const context::window::Limits limits{
        .window = engine_->window().tokens, .by = {}, .trained = {}};
    return context::window::reject_error(limits,
                                         static_cast<int64_t>(requests_[index].prompt.size()),
                                         requests_[index].options.max_tokens.value_or(1));
  }

  void answer() {
    for (auto& [index, error] : refused_) keep(index, std::move(error));
    std::vector<engine::BatchRequest> asked;
    for (const size_t index : asked_) asked.push_back(requests_[index]);
    engine::generate_batch(
        *engine_, asked, {.max_sequences = together_},
        {.on_done = [this](size_t index,
                           Result<Generated> answer) { keep(asked_[index], std::move(answer)); },
         .on_progress =
             [this](int64_t done) {
               output_.progress("answering",
                                static_cast<double>(done) / static_cast<double>(lines_.size()));
               return !interrupted() && !output_.broken();
             }});
    output_.clear_progress();
  }

  void keep(size_t index, Result<Generated> answer) {
    if (!answer.ok() && !first_error_) {
      first_error_ = Error{answer.error().code, fmt::format("{}: {}", lines_[index].prompt.name,
                                                            answer.error().message)};
    }
    failed_ += answer.ok() ? 0 : 1;
    results_[index] = result_json(index, answer);
    for (; next_to_print_ < results_.size() && results_[next_to_print_]; ++next_to_print_) {
      output_.text(results_[next_to_print_]->dump() + "\n");
    }
  }

  Json result_json(size_t index, const Result<Generated>& answer) {
    Json json;
    json.set("index", static_cast<int64_t>(index));
    json.set("id", lines_[index].id);
    if (!answer.ok()) {
      json.set("error", answer.error().message);
      return json;
    }
    json.set("text", utf8_sanitized(answer->text));
    json.set("tokens", ids_json(answer->tokens));
    json.set("prompt_tokens", answer->prompt_tokens);
    json.set("completion_tokens", static_cast<int64_t>(answer->tokens.size()));
    json.set("finish_reason", engine::name(answer->finish));
    json.set("stop", answer->stop.empty() ? Json() : Json(shown_piece(answer->stop)));
    if (options_.logprobs) json.set("logprobs", logprobs_json(answer->logprobs));
    if (options_.logprobs.value_or(0) > 0) {
      json.set("top_logprobs", top_logprobs_json(loaded_.model->tokenizer(), answer->logprobs));
    }
    json.set("reuse", reuse_json(answer->reuse, prompts_[index], loaded_.model->tokenizer()));
    if (reports_[index]) json.set("context", context::window::context_json(*reports_[index]));
    prompt_tokens_ += answer->prompt_tokens;
    completion_tokens_ += static_cast<int64_t>(answer->tokens.size());
    cached_tokens_ += answer->reuse.cached_tokens;
    return json;
  }

  Result<void> finish() {
    // Interrupted: lines behind one that never began.
    for (size_t i = next_to_print_; i < results_.size(); ++i) {
      if (results_[i]) output_.text(results_[i]->dump() + "\n");
    }
    QUIRE_TRY_VOID(output_.finish(document()));
    const std::string known = fmt::format(
        "[{} prompts, {} tokens of which {} were known; {} tokens in {:.2f} s]", lines_.size(),
        prompt_tokens_, cached_tokens_, completion_tokens_, watch_.ms() / 1000.0);
    if (output_.remarks_on_terminal()) {
      output_.remark(known);
    } else {
      output_.detail(known);
    }
    if (interrupted()) return Error{ErrorCode::kInterrupted, ""};
    if (!first_error_) return {};
    if (failed_ == 1) return *first_error_;
    return Error{first_error_->code, fmt::format("{} of {} lines were not answered; the first: {}",
                                                 failed_, lines_.size(), first_error_->message)};
  }

  Json document() const {
    Json results(Json::Array{});
    for (const auto& result : results_) {
      if (result) results.push_back(*result);
    }
    Json reuse;
    reuse.set("cached_tokens", cached_tokens_);
    Json timings;
    timings.set("load_ms", loaded_.load_ms);
    timings.set("total_ms", watch_.ms());
    Json json;
    json.set("results", std::move(results));
    json.set("prompt_tokens", prompt_tokens_);
    json.set("completion_tokens", completion_tokens_);
    json.set("reuse", std::move(reuse));
    json.set("timings", std::move(timings));
    json.set("kv", kv_json(*engine_));
    json.set("memory", memory_json(env_, *engine_));
    json.set("model", utf8_sanitized(loaded_.model->path()));
    json.set("seed", options_.sampling.seed);
    return json;
  }

  const Environment& env_;
  const RunOptions& options_;
  Output& output_;
  const Stopwatch watch_;
  LoadedModel loaded_;
  std::vector<BatchLine> lines_;
  std::vector<engine::Prompt> prompts_;
  std::vector<std::optional<context::window::Report>> reports_;  // absent: it does not fit
  std::vector<engine::BatchRequest> requests_;
  std::vector<size_t> asked_;                      // lines that fit
  std::vector<std::pair<size_t, Error>> refused_;  // the others
  std::unique_ptr<engine::Engine> engine_;
  int32_t together_ = 1;  // that decode at once
  std::vector<std::optional<Json>> results_;
  size_t next_to_print_ = 0;
  std::optional<Error> first_error_;
  int64_t failed_ = 0;
  int64_t prompt_tokens_ = 0;
  int64_t completion_tokens_ = 0;
  int64_t cached_tokens_ = 0;
};

}  // namespace

Result<void> run_batch(const Environment& env, const RunOptions& options, Output& output) {
  return BatchRun(env, options, output).execute();
}

}  // namespace quire::cli
