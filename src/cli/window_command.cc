// window: what the context window makes of a request. Needs no weights.
#include <fmt/format.h>

#include <algorithm>

#include "base/byte_size.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/model_path.h"
#include "cli/option_parser.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/prompt_input.h"
#include "cli/session.h"
#include "cli/window_picture.h"
#include "context/window/fit.h"
#include "context/window/moving_lines.h"
#include "context/window/task_state.h"
#include "engine/describe.h"
#include "formats/model_files.h"

namespace quire::cli {
namespace {

using context::window::Fitted;
using context::window::KeepPlan;
using context::window::Limits;
using context::window::Planner;
using context::window::Policy;
using context::window::WindowRequest;
using formats::Json;

constexpr int kBarCells = 64;

struct WindowOptions {
  OutputOptions output;
  ModelOptions model;  // MODEL, what to do, REQ.json
  std::optional<int64_t> context;
  std::optional<Policy> policy;
  std::optional<int64_t> max_tokens;
  bool fit_output = false;
  std::optional<std::string> previous;
  std::optional<std::string> task_done;
  std::string svg;
};

void declare_window(OptionParser& parser, WindowOptions& options) {
  declare(parser, options.model, 3);
  parser.heading("Window");
  parser.add({{"-c", "--ctx", "--context"},
              "N",
              "the window (default: what the model was trained for)",
              store_int(options.context, 1, INT32_MAX)});
  parser.add({{"-n", "--predict"},
              "N",
              "new tokens to leave room for (default: the request's max_tokens)",
              store_int(options.max_tokens, 1, INT32_MAX)});
  parser.add({{"--overflow"},
              "POLICY",
              "what to do when it does not fit (default: the request's context.policy): " +
                  context::window::policy_names(),
              store_policy(options.policy)});
  parser.add({{"--fit-output"}, "", "lower max_tokens to what fits", set(options.fit_output)});
  parser.add({{"--previous"},
              "REQ0.json",
              "the request before this one: what of it is cached, and which line moved",
              store(options.previous)});
  parser.add({{"--task-done"},
              "STATE.json",
              "with compact: replace the log by {decisions, done, open, facts: [{text, src}]}",
              store(options.task_done)});
  parser.add({{"--svg"}, "FILE", "draw the window", store(options.svg)});
  declare(parser, options.output);
}

Error usage(std::string message) {
  return {ErrorCode::kUsage, std::move(message)};
}

class WindowRun {
 public:
  WindowRun(const Environment& env, const WindowOptions& options, Output& output)
      : env_(env), options_(options), output_(output) {}

  Result<void> execute() {
    if (options_.model.models.size() != 3) {
      return usage("window wants MODEL, then plan, explain or compact, then REQ.json");
    }
    const std::string& action = options_.model.models[1];
    if (action != "plan" && action != "explain" && action != "compact") {
      return usage(
          fmt::format("window plan, explain or compact, not '{}'", utf8_sanitized(action)));
    }
    if (options_.task_done && action != "compact") {
      return usage("--task-done belongs to window compact");
    }
    QUIRE_TRY_VOID(open_model());
    QUIRE_TRY(request_, read_request(options_.model.models[2]));
    QUIRE_TRY_VOID(read_previous());
    if (action == "plan") return plan();
    return action == "explain" ? explain() : compact();
  }

 private:
  Result<void> open_model() {
    QUIRE_TRY(const std::string path, resolve_model(env_, options_.model.models.front()));
    QUIRE_TRY(const formats::ModelFiles files,
              formats::ModelFiles::open(env_.files, path, formats::OpenMode::kMetadataOnly));
    QUIRE_TRY(const auto chat_template, read_chat_template(env_, options_.model));
    QUIRE_TRY(text_, engine::load_model_text(files, chat_template));
    if (!text_.chat_template) return needs_template("window", text_.template_problem);
    limits_.trained = engine::trained_context(files);
    if (!limits_.trained && !options_.context) {
      return usage(
          "the files do not say how long a context the model was trained for: give --ctx N");
    }
    limits_.window = options_.context.value_or(limits_.trained.value_or(0));
    if (limits_.trained) {
      QUIRE_TRY(const engine::Window window,
                engine::resolve_window(*limits_.trained, options_.context, *limits_.trained));
      limits_.window = window.tokens;
      limits_.by = engine::name(window.limit);
    }
    return {};
  }

  Result<WindowRequest> read_request(const std::string& file) {
    QUIRE_TRY(const std::string text,
              file == "-" ? read_all(env_) : env_.files.read(file, kMaxPromptBytes));
    QUIRE_TRY(const Json document, Json::parse(text, file));
    auto request = context::window::read_window_request(document, file);
    if (!request.ok()) return usage(file + ": " + request.error().message);
    if (options_.policy) request->policy.policy = *options_.policy;
    if (options_.max_tokens) request->policy.max_tokens = options_.max_tokens;
    if (options_.fit_output) request->policy.output = context::window::Output::kShrink;
    const auto special = text_.tokenizer->special_tokens();
    request->chat.special_tokens = {special.begin(), special.end()};
    request->chat.now = context::local_wall_clock();
    return request;
  }

  context::window::TextModel text_model() const { return {*text_.tokenizer, *text_.chat_template}; }

  Result<std::unique_ptr<Planner>> planner_for(Policy policy) const {
    WindowRequest request = request_;
    request.policy.policy = policy;
    return Planner::create(text_model(), std::move(request));
  }

  /// What the request before this one left in the cache.
  Result<void> read_previous() {
    if (!options_.previous) return {};
    QUIRE_TRY(WindowRequest previous, read_request(*options_.previous));
    QUIRE_TRY(previous_, Planner::create(text_model(), std::move(previous)));
    return {};
  }

  /// Without a request before, the request as it came is taken to be cached.
  std::vector<TokenId> cached_for(const Planner& planner, const Limits& limits) const {
    if (!previous_) return planner.anatomy().prompt.tokens;
    WindowRequest before = previous_->request();
    before.policy.policy = planner.request().policy.policy;
    const auto earlier = Planner::create(text_model(), std::move(before));
    const auto sent =
        earlier.ok() ? context::window::fit(**earlier, limits) : Result<Fitted>(earlier.error());
    return sent.ok() ? sent->prompt.tokens : previous_->anatomy().prompt.tokens;
  }

  std::vector<context::window::MovingLine> moving_lines(const Planner& planner) const {
    std::vector<context::window::MovingLine> lines;
    if (previous_) {
      if (const auto moved = context::window::line_that_moved(*previous_, planner)) {
        lines.push_back(*moved);
      }
      return lines;
    }
    return context::window::lines_that_look_moving(planner);
  }

  Json moving_json(const Planner& planner) const {
    Json list(Json::Array{});
    for (const context::window::MovingLine& line : moving_lines(planner)) {
      Json entry;
      entry.set("part", line.part);
      entry.set("line", line.line);
      entry.set("observed", line.observed);
      entry.set("reprefill_tokens_each_turn", line.reprefill_tokens);
      entry.set("advice", line.advice);
      list.push_back(std::move(entry));
    }
    return list;
  }

  Json limit_json() const {
    Json limit;
    limit.set("ctx", limits_.window);
    limit.set("by", limits_.by);
    limit.set("trained", limits_.trained ? Json(*limits_.trained) : Json());
    return limit;
  }

  static Json cost_json(const context::window::Cost& cost) {
    Json json;
    json.set("reused_tokens", cost.reused);
    json.set("reprefill_tokens", cost.reprefilled);
    json.set("first_divergence", cost.first_divergence);
    return json;
  }

  Json document(const Planner& planner, const Fitted& fitted,
                const context::window::Cost& cost) const {
    Json context = context::window::context_json(fitted.report);
    context.set("limit", limit_json());
    context.set("cost", cost_json(cost));
    context.set("moving", moving_json(planner));
    Json json;
    json.set("context", std::move(context));
    json.set("messages", fitted.messages);
    return json;
  }

  Result<void> draw(const Fitted& fitted) const {
    if (options_.svg.empty()) return {};
    return env_.files.write_atomically(options_.svg, window_svg(fitted.report));
  }

  std::string picture(const Fitted& fitted) const {
    const bool colours = output_.interactive() && env_.colour_wanted;
    return window_head(fitted.report) + window_table(fitted.report) +
           window_bar(fitted.report, colours ? BarColour::kColours : BarColour::kLetters,
                      kBarCells);
  }

  void show(const Planner& planner, const Fitted& fitted, const context::window::Cost& cost) {
    std::string out = picture(fitted);
    out += fmt::format("cache reuse {} | re-prefill {} | first divergence: {}\n", cost.reused,
                       cost.reprefilled, cost.first_divergence);
    out += context::window::one_line_of(fitted.report) + "\n";
    for (const std::string& note : fitted.report.notes) out += "note: " + note + "\n";
    for (const auto& line : moving_lines(planner)) {
      out += "note: " + context::window::describe(line) + "\n";
    }
    output_.text(out);
  }

  Result<void> plan() { return show_plan(limits_); }

  Result<void> show_plan(const Limits& limits) {
    QUIRE_TRY(const auto planner, planner_for(request_.policy.policy));
    QUIRE_TRY(const Fitted fitted, context::window::fit(*planner, limits));
    const auto cost = context::window::cost_of(fitted, cached_for(*planner, limits));
    QUIRE_TRY_VOID(draw(fitted));
    show(*planner, fitted, cost);
    return output_.finish(document(*planner, fitted, cost));
  }

  /// Every policy beside the others, what each costs and risks, and the parts as they are.
  Result<void> explain() {
    QUIRE_TRY(const auto planner, planner_for(request_.policy.policy));
    Json plans(Json::Array{});
    std::string out = fmt::format("{:<15} {:>7} {:>7} {:>10}  {:<17} {}\n", "policy", "prompt",
                                  "dropped", "re-prefill", "first divergence", "risk");
    for (const Policy policy :
         {Policy::kReject, Policy::kTruncateLeft, Policy::kTruncateRight, Policy::kHeadTail,
          Policy::kSummarize, Policy::kRetrieve, Policy::kAuto}) {
      QUIRE_TRY(const auto other, planner_for(policy));
      const auto fitted = context::window::fit(*other, limits_);
      Json entry;
      entry.set("policy", context::window::name(policy));
      if (fitted.ok()) {
        const auto cost = context::window::cost_of(*fitted, cached_for(*other, limits_));
        const auto& report = fitted->report;
        out += fmt::format("{:<15} {:>7} {:>7} {:>10}  {:<17} {}\n", context::window::name(policy),
                           report.prompt_tokens,
                           std::max<int64_t>(report.tokens_before - report.prompt_tokens, 0),
                           cost.reprefilled, cost.first_divergence, report.risk);
        entry.set("context", context::window::context_json(report));
        entry.set("cost", cost_json(cost));
      } else {
        out += fmt::format("{:<15} refused: {}\n", context::window::name(policy),
                           fitted.error().message);
        entry.set("refused", fitted.error().message);
      }
      plans.push_back(std::move(entry));
    }
    out += "\n" + parts_table(*planner);
    for (const auto& line : moving_lines(*planner)) {
      out += "note: " + context::window::describe(line) + "\n";
    }
    output_.text(out);
    Json json, context;
    context.set("limit", limit_json());
    context.set("prompt_tokens", planner->anatomy().prompt.count());
    context.set("parts", parts_json(*planner));
    context.set("moving", moving_json(*planner));
    json.set("context", std::move(context));
    json.set("plans", std::move(plans));
    return output_.finish(json);
  }

  static std::string parts_table(const Planner& planner) {
    std::string out = fmt::format("{:<14} {:>7} {:>5}  {:<11} {:<9} {:<8} {}\n", "part", "tokens",
                                  "group", "kind", "stability", "trust", "may be");
    for (const context::window::Part& part : planner.anatomy().parts) {
      if (part.tokens == 0) continue;
      std::string may;
      const auto add = [&](bool yes, std::string_view what) {
        if (yes) may += (may.empty() ? "" : ", ") + std::string(what);
      };
      const auto& groups = planner.anatomy().groups;
      add(part.pin, "pinned");
      add(!part.message ? part.droppable : groups[part.group].droppable, "dropped");
      add(part.message && groups[part.group].summarizable, "summarized");
      add(!part.pin && part.truncate != context::window::Truncate::kNone, "cut");
      out += fmt::format("{:<14} {:>7} {:>5}  {:<11} {:<9} {:<8} {}\n", part.id, part.tokens,
                         part.group < 0 ? "-" : std::to_string(part.group),
                         context::window::name(part.kind), context::window::name(part.stability),
                         context::window::name(part.trust), may);
    }
    return out;
  }

  static Json parts_json(const Planner& planner) {
    Json list(Json::Array{});
    for (const context::window::Part& part : planner.anatomy().parts) {
      Json json;
      json.set("part", part.id);
      json.set("kind", context::window::name(part.kind));
      json.set("tokens", part.tokens);
      json.set("group", int64_t{part.group});
      json.set("stability", context::window::name(part.stability));
      json.set("trust", context::window::name(part.trust));
      json.set("priority", int64_t{part.priority});
      json.set("pin", part.pin);
      json.set("droppable",
               part.message ? planner.anatomy().groups[part.group].droppable : part.droppable);
      json.set("truncate", context::window::name(part.truncate));
      json.set("summarizable",
               part.message ? planner.anatomy().groups[part.group].summarizable : false);
      json.set("retrievable", part.retrievable);
      json.set("min", part.min_tokens);
      json.set("sha", part.sha);
      if (!part.db_ref.empty()) json.set("db_ref", part.db_ref);
      list.push_back(std::move(json));
    }
    return list;
  }

  /// Down to the low watermark, whether it fits or not; or to a finished task's state.
  Result<void> compact() {
    if (options_.task_done) return compact_task();
    if (request_.policy.policy == Policy::kReject) request_.policy.policy = Policy::kAuto;
    return show_plan(context::window::compacted(limits_, request_.policy));
  }

  Result<void> compact_task() {
    QUIRE_TRY(const std::string text, env_.files.read(*options_.task_done, kMaxPromptBytes));
    QUIRE_TRY(const Json document_json, Json::parse(text, *options_.task_done));
    QUIRE_TRY(const context::window::TaskState state,
              context::window::read_task_state(document_json, *options_.task_done));
    QUIRE_TRY(const auto planner, planner_for(request_.policy.policy));
    QUIRE_TRY(const context::window::Rebuilt rebuilt,
              context::window::replace_log(*planner, state, limits_));
    const context::window::Report& report = rebuilt.fitted.report;
    if (report.prompt_tokens + report.budget.reserve > limits_.window) {
      return Error{ErrorCode::kDoesNotFit,
                   fmt::format("with the state the prompt has {} tokens; with {} for the answer it "
                               "does not fit the window of {}",
                               report.prompt_tokens, report.budget.reserve, limits_.window)};
    }
    const auto cost = context::window::cost_of(rebuilt.fitted, planner->anatomy().prompt.tokens);
    QUIRE_TRY_VOID(draw(rebuilt.fitted));
    output_.text(picture(rebuilt.fitted) +
                 fmt::format("cache reuse {} | re-prefill {} | first divergence: {}\n", cost.reused,
                             cost.reprefilled, cost.first_divergence) +
                 context::window::describe_saving(rebuilt, cost.reprefilled) + "\n");
    Json json = document(*planner, rebuilt.fitted, cost);
    Json saving;
    saving.set("tokens_before", report.tokens_before);
    saving.set("tokens_after", report.prompt_tokens);
    saving.set("saved_tokens", report.tokens_before - report.prompt_tokens);
    saving.set("rebuild_prefill_tokens", cost.reprefilled);
    saving.set("static_prefix_identical", rebuilt.static_prefix_identical);
    json.set("saving", std::move(saving));
    return output_.finish(json);
  }

  const Environment& env_;
  const WindowOptions& options_;
  Output& output_;
  engine::ModelText text_;
  Limits limits_;
  WindowRequest request_;
  std::unique_ptr<Planner> previous_;
};

Result<void> run_window(const Command& self, const Environment& env,
                        std::span<const std::string> args) {
  WindowOptions options;
  OptionParser parser("quire window");
  declare_window(parser, options);
  QUIRE_TRY(const bool helped, parse_or_help(self, env, parser, args));
  if (helped) return {};
  Output output(env, options.output);
  return WindowRun(env, options, output).execute();
}

}  // namespace

const Command kWindowCommand = {
    .name = "window",
    .arguments = "MODEL plan|explain|compact REQ.json [options]",
    .summary = "what the context window makes of a request (needs no weights)",
    .example =
        "  quire window model.gguf plan request.json --ctx 4096 --overflow auto\n"
        "  quire window model.gguf explain request.json --ctx 4096\n"
        "  quire window model.gguf plan turn9.json --previous turn8.json --svg window.svg\n"
        "  quire window model.gguf compact request.json --task-done state.json\n",
    .run = run_window,
};

}  // namespace quire::cli
