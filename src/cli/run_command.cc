// run: one prompt, one answer (or several of the same prompt), streamed.
#include <fmt/format.h>

#include "base/utf8.h"
#include "cli/answer_schema.h"
#include "cli/batch_run.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/option_parser.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/overflow.h"
#include "cli/pieces.h"
#include "cli/profile_report.h"
#include "cli/report.h"
#include "cli/run_options.h"
#include "cli/session.h"
#include "cli/stored_turn.h"
#include "context/window/decompose.h"
#include "engine/beam_search.h"
#include "engine/generate.h"

namespace quire::cli {
namespace {

using engine::Engine;
using engine::FinishReason;
using engine::Generated;
using engine::GenerateOptions;
using formats::Json;

constexpr int64_t kMostChoices = 1024;
constexpr int64_t kMostLogprobs = 1000;

void declare_run(OptionParser& parser, RunOptions& options) {
  declare(parser, options.model);
  declare(parser, options.prompt);
  declare(parser, options.generation);
  declare(parser, options.sampling);
  parser.add({{"--choices"},
              "N",
              "N samples of the prompt, which is read once and shared (default 1)",
              store_int(options.choices, 1, kMostChoices)});
  parser.add({{"--batch"},
              "FILE",
              "answer each line of a JSONL file (a text, messages, or an object with \"prompt\" or "
              "\"messages\", \"id\", \"max_tokens\"), many at once; prints a JSON line each",
              store(options.batch_file)});
  parser.add({{"--json-schema"},
              "FILE",
              "an answer that is JSON and satisfies this schema ({} for any JSON)",
              store(options.json_schema_file)});
  parser.add({{"--conversation"},
              "NAME",
              "answer as the next turn of a conversation that is kept in $QUIRE_HOME",
              store(options.conversation)});
  declare(parser, options.documents);
  declare(parser, options.beams);
  declare(parser, options.cache);
  declare(parser, options.compute);
  declare_profile(parser, options.profile);
  declare(parser, options.output);
  parser.add({{"--logprobs"},
              "[TOP]",
              "with --json: each token's log-probability, and those of the TOP likeliest",
              [&options](std::string_view option, std::string_view value) -> Result<void> {
                options.logprobs = 0;
                if (value.empty()) return {};
                return store_int(options.logprobs, 0, kMostLogprobs)(option, value);
              }});
}

struct Choice {
  Generated generated;
  std::optional<double> score;  // of a beam search
};

class Run {
 public:
  Run(const Environment& env, const RunOptions& options, Output& output)
      : env_(env), options_(options), output_(output) {}

  Result<void> execute() {
    QUIRE_TRY(rules_, beam_rules(options_.beams, options_.sampling, options_.choices));
    warn_of_coarse_codecs(output_, options_.cache.kv);
    warn_of_many_threads(env_, output_, options_.compute);
    if (options_.conversation) QUIRE_TRY_VOID(check_turn_options(options_));
    QUIRE_TRY_VOID(check_document_options());
    QUIRE_TRY(loaded_, load_model(env_, options_.model, "run", output_));
    engine::EngineOptions wanted = engine_options(env_, options_.compute, options_.cache);
    // There is no earlier prompt to find again, and choices fork.
    wanted.prefix_reuse = engine::PrefixReuse::kOff;
    wanted.static_sequences = num_sequences();
    if (options_.profile) wanted.profile = &profile_;
    QUIRE_TRY(engine_, Engine::create(*loaded_.model, wanted));
    QUIRE_TRY_VOID(read_question());
    QUIRE_TRY_VOID(fit_window());
    QUIRE_TRY_VOID(engine::check_request(*engine_, prompt_.tokens, generate_options(/*choice=*/0)));
    if (options_.json_schema_file) {
      QUIRE_TRY(constraint_,
                read_answer_schema(env_, *options_.json_schema_file, *loaded_.model, prompt_.text));
    }
    if (turn_) QUIRE_TRY_VOID(turn_->keep_question());
    QUIRE_TRY_VOID(rules_ ? search_beams() : generate_choices());
    if (turn_) QUIRE_TRY_VOID(turn_->keep_answer(prompt_, choices_.front().generated));
    if (options_.profile) show_profile();
    QUIRE_TRY_VOID(output_.finish(document()));
    if (cut_short_) return *std::move(cut_short_);
    if (interrupted()) return Error{ErrorCode::kInterrupted, ""};
    return {};
  }

 private:
  Result<void> read_question() {
    PromptOptions prompt = options_.prompt;
    if (options_.documents.use) QUIRE_TRY_VOID(add_documents(prompt));
    if (options_.conversation) {
      QUIRE_TRY(turn_, StoredTurn::begin(env_, *options_.conversation, prompt, loaded_, output_));
      ModelSummaries summaries(*loaded_.model, *engine_);
      QUIRE_TRY(prompt_,
                turn_->prompt(*engine_, options_.generation, summaries.summarizer(), output_));
    } else {
      QUIRE_TRY(prompt_, read_prompt(env_, loaded_.prompt_maker(), prompt,
                                     DefaultRendering::kTemplate, output_));
    }
    return chunks_.empty() ? Result<void>() : insert_documents();
  }

  Result<engine::Prompt> render(const context::ChatRequest& request) const {
    return turn_ ? turn_->prompt_of(request)
                 : engine::chat_prompt(loaded_.model->tokenizer(), *loaded_.model->chat_template(),
                                       request);
  }

  /// Before the question, which is the last message.
  Result<void> insert_documents() {
    context::ChatRequest request = *prompt_.request;
    const auto question = static_cast<int32_t>(request.messages.as_array()->size()) - 1;
    request.insertions = context::window::chunk_insertions(chunks_, question);
    QUIRE_TRY(prompt_, render(request));
    return {};
  }

  Result<void> check_document_options() const {
    const bool only_with = options_.documents.rerank || options_.documents.max_tokens;
    if (!options_.documents.use && only_with) {
      return Error{ErrorCode::kUsage, "--rerank and --docs-tokens need --docs"};
    }
    if (options_.documents.use && (options_.prompt.messages_file || options_.prompt.raw())) {
      return Error{ErrorCode::kUsage,
                   "--docs needs a question from -p, -f or stdin, and no --messages, --raw or "
                   "--plain"};
    }
    return {};
  }

  /// Finds what the documents say of the question, which is read here. Without a template all of it
  /// is one text.
  Result<void> add_documents(PromptOptions& prompt) {
    PromptOptions question_only = prompt;
    question_only.prefix_file.reset();
    QUIRE_TRY(const std::string question, read_prompt_text(env_, question_only, output_));
    QUIRE_TRY(chosen_, choose_chunks(env_, *engine_, question, options_.documents, output_));
    output_.remark(chosen_->summary());
    // A prefix is the head of the message, so pieces cannot stand before the whole of it.
    const bool as_parts = loaded_.model->chat_template() != nullptr && !prompt.prefix_file;
    if (as_parts) chunks_ = chosen_->window_chunks();
    prompt.pieces = {
        {PromptOptions::Piece::Kind::kText, (as_parts ? "" : chosen_->prompt_text()) + question}};
    return {};
  }

  int64_t prompt_tokens() const { return static_cast<int64_t>(prompt_.tokens.size()); }

  /// That hold pages at once: every beam, or one choice beside the prompt that all of them fork.
  int32_t num_sequences() const {
    if (rules_) return rules_->beams;
    return options_.choices > 1 ? 2 : 1;
  }

  /// What --overflow and --fit-output make of prompt and -n.
  Result<void> fit_window() {
    const auto render = [this](const context::ChatRequest& request) {
      return this->render(request);
    };
    ModelSummaries summaries(*loaded_.model, *engine_);
    QUIRE_TRY(FittedPrompt fitted, fit_prompt({.maker = loaded_.prompt_maker(),
                                               .window = engine_->window(),
                                               .trained = loaded_.model->config().context,
                                               .options = options_.generation,
                                               .render = render,
                                               .chunks = chunks_,
                                               .summarizer = summaries.summarizer()},
                                              std::move(prompt_), options_.generation.max_tokens));
    prompt_ = std::move(fitted.prompt);
    max_tokens_ = fitted.report.max_tokens;
    report_ = std::move(fitted.report);
    const bool fits = report_.status == context::window::KeepPlan::Status::kFits;
    if (fits && !report_.max_tokens_before && output_.remarks_on_terminal()) {
      output_.remark(context::window::one_line_of(report_));
    } else {
      say_what_changed(output_, report_);
    }
    return {};
  }

  GenerateOptions generate_options(int32_t choice) const {
    GenerateOptions options;
    options.sampling = resolve_sampling(options_.sampling, loaded_.model->sampling_defaults());
    options.sampling.choice = choice;
    options.max_tokens = max_tokens_;
    options.stop = options_.generation.stop;
    options.draft.most = static_cast<int32_t>(options_.generation.draft);
    if (options_.logprobs) options.logprobs = static_cast<int32_t>(*options_.logprobs);
    return options;
  }

  Engine::Progress on_prefill() {
    return [this](int64_t done, int64_t total) {
      output_.progress("reading the prompt",
                       static_cast<double>(done) / static_cast<double>(total));
      return !interrupted();
    };
  }

  /// The first choice reads the prompt; the others start from its pages.
  Result<void> generate_choices() {
    std::optional<engine::Sequence> prompt;
    for (int32_t choice = 0; choice < options_.choices; ++choice) {
      if (choice > 0 && interrupted()) break;
      if (options_.choices > 1) output_.text(fmt::format("--- choice {}\n", choice));
      engine::Sequence own = prompt ? engine_->fork(*prompt) : engine_->create_sequence();
      QUIRE_TRY_VOID(generate_on(own, choice, prompt));
      // It ended with its first token, and so holds the prompt alone.
      if (options_.choices > 1 && !prompt) prompt = std::move(own);
    }
    return {};
  }

  /// Leaves the prompt alone in `prompt` if there will be other choices and it was not yet there.
  Result<void> generate_on(engine::Sequence& sequence, int32_t choice,
                           std::optional<engine::Sequence>& prompt) {
    const auto on_text = [&](std::string_view text) {
      // The first token is chosen but has not run.
      if (options_.choices > 1 && !prompt) prompt = engine_->fork(sequence);
      output_.text(text);
      return !interrupted() && !output_.broken();
    };
    const engine::GenerateEvents events{.on_prefill = on_prefill(), .on_text = on_text};
    const auto constraint = constraint_ ? constraint_->fresh() : nullptr;
    QUIRE_TRY(Generated generated,
              engine::generate(*engine_, sequence, prompt_.tokens, generate_options(choice), events,
                               constraint.get()));
    note_memory();
    output_.clear_progress();
    const bool ends_line = output_.interactive() || options_.choices > 1;
    if (ends_line && !generated.text.ends_with('\n')) output_.text("\n");
    report(generated);
    choices_.push_back({std::move(generated), std::nullopt});
    return {};
  }

  Result<void> search_beams() {
    engine::BeamSearchOptions options{
        .rules = *rules_, .max_tokens = max_tokens_, .stop = options_.generation.stop};
    if (options_.logprobs) options.logprobs = static_cast<int32_t>(*options_.logprobs);
    const auto on_token = [this](int64_t done, int64_t most) {
      output_.progress("searching", static_cast<double>(done) / static_cast<double>(most));
      note_memory();
      return !interrupted();
    };
    QUIRE_TRY(engine::BeamSearchResult result,
              engine::beam_search(*engine_, engine_->create_sequence(), prompt_.tokens, options,
                                  {.on_prefill = on_prefill(), .on_token = on_token}));
    if (kv_.is_null()) note_memory();
    output_.clear_progress();
    cut_short_ = std::move(result.cut_short);
    const Generated& best = result.answers.front().generated;
    output_.text(best.text);
    if (output_.interactive() && !best.text.ends_with('\n')) output_.text("\n");
    report(best);
    for (engine::BeamAnswer& answer : result.answers) {
      output_.detail(fmt::format("[score {:.4f}, {} tokens] {}", answer.score,
                                 answer.generated.tokens.size(), one_line(answer.generated.text)));
      choices_.push_back({std::move(answer.generated), answer.score});
    }
    return {};
  }

  /// While the pages are still held.
  void note_memory() {
    kv_ = kv_json(*engine_);
    memory_ = memory_json(env_, *engine_);
  }

  void report(const Generated& generated) {
    if (output_.remarks_on_terminal()) {
      output_.remark(summary(generated));
    } else {
      output_.detail(summary(generated));
    }
  }

  void show_profile() {
    std::string table = profile_text(profile_, engine_->geometry());
    table.pop_back();  // a remark ends its own line
    output_.remark(table);
  }

  Json choice_json(const Choice& choice) const {
    const Generated& generated = choice.generated;
    Json json;
    json.set("text", utf8_sanitized(generated.text));
    json.set("tokens", ids_json(generated.tokens));
    json.set("finish_reason", engine::name(generated.finish));
    json.set("stop", generated.stop.empty() ? Json() : Json(shown_piece(generated.stop)));
    if (choice.score) json.set("score", *choice.score);
    if (options_.logprobs) {
      json.set("logprobs", logprobs_json(generated.logprobs));
    }
    if (options_.logprobs.value_or(0) > 0) {
      json.set("top_logprobs", top_logprobs_json(loaded_.model->tokenizer(), generated.logprobs));
    }
    return json;
  }

  Json document() const {
    const Generated& first = choices_.front().generated;
    Json json = choice_json(choices_.front());
    json.set("prompt_tokens", prompt_tokens());
    int64_t completion = 0;
    Json choices(Json::Array{});
    for (const Choice& choice : choices_) {
      completion += static_cast<int64_t>(choice.generated.tokens.size());
      choices.push_back(choice_json(choice));
    }
    json.set("completion_tokens", completion);
    json.set("choices", std::move(choices));
    json.set("reuse", reuse_json(first.reuse, prompt_, loaded_.model->tokenizer()));
    Json context = context::window::context_json(report_);
    if (const auto& stretch = loaded_.model->rope_stretch()) {
      context.set("rope_scaling", model::name(*stretch));
      context.set("risk", "stretched beyond the trained length");
    }
    json.set("context", std::move(context));
    json.set("timings", timings_json(loaded_.load_ms, first));
    json.set("kv", kv_);
    json.set("memory", memory_);
    if (options_.profile) json.set("profile", profile_json(profile_, engine_->geometry()));
    json.set("model", utf8_sanitized(loaded_.model->path()));
    json.set("seed", options_.sampling.seed);
    if (turn_) json.set("conversation", turn_->to_json());
    if (chosen_) json.set("documents", chosen_->to_json());
    return json;
  }

  const Environment& env_;
  const RunOptions& options_;
  Output& output_;
  LoadedModel loaded_;
  engine::Prompt prompt_;
  model::Profile profile_;
  std::unique_ptr<Engine> engine_;
  std::optional<int64_t> max_tokens_;
  context::window::Report report_;
  std::optional<engine::BeamRules> rules_;
  std::unique_ptr<StoredTurn> turn_;
  std::optional<ChosenChunks> chosen_;
  std::vector<context::window::Chunk> chunks_;  // of chosen_, where they are parts of their own
  std::vector<Choice> choices_;
  std::unique_ptr<engine::TokenConstraint> constraint_;  // null: anything may be said
  std::optional<Error> cut_short_;
  Json kv_, memory_;
};

Result<void> run_run(const Command& self, const Environment& env,
                     std::span<const std::string> args) {
  RunOptions options;
  OptionParser parser("quire run");
  declare_run(parser, options);
  QUIRE_TRY(const bool helped, parse_or_help(self, env, parser, args));
  if (helped) return {};
  if (options.json_schema_file && (options.batch_file || options.beams.beams)) {
    return Error{ErrorCode::kUsage, "--json-schema does not go with --batch or --beams"};
  }
  Output output(env, options.output);
  if (options.batch_file) {
    if (options.conversation || options.documents.use) {
      return Error{ErrorCode::kUsage,
                   fmt::format("{} and --batch exclude each other",
                               options.conversation ? "--conversation" : "--docs")};
    }
    return run_batch(env, options, output);
  }
  return Run(env, options, output).execute();
}

}  // namespace

const Command kRunCommand = {
    .name = "run",
    .arguments = "MODEL [options]",
    .summary = "answer a prompt",
    .example =
        "  quire run model.gguf -p 'Why is the sky blue?'\n"
        "  quire run model.gguf -f report.txt -p 'Summarise in three lines.' --temp 0\n"
        "  quire run model.gguf --raw -p 'Once upon a time' -n 64 --json\n"
        "  quire run model.gguf -p 'Translate: good morning' --beams 4 -n 32\n"
        "  quire run model.gguf --prefix-file report.txt --batch questions.jsonl\n"
        "  quire run model.gguf --docs -p 'What does the manual say of pages?'\n"
        "  quire run model.gguf --conversation holidays -p 'And in winter?'\n",
    .run = run_run,
};

}  // namespace quire::cli
