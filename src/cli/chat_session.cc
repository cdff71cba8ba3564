#include "cli/chat_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "base/byte_size.h"
#include "base/utf8.h"
#include "cli/compaction.h"
#include "cli/home.h"
#include "cli/interrupt.h"
#include "cli/prompt_input.h"
#include "cli/report.h"
#include "cli/window_picture.h"
#include "formats/printable.h"

namespace quire::cli {
namespace {

using engine::FinishReason;
using formats::Json;

constexpr int kBarCells = 64;

Error usage(std::string message) {
  return {ErrorCode::kUsage, std::move(message)};
}

double decode_tok_s(const engine::Generated& generated) {
  const auto& gaps = generated.timings.gaps_ms;
  const double ms = std::accumulate(gaps.begin(), gaps.end(), 0.0);
  return ms > 0.0 ? static_cast<double>(gaps.size()) * 1000.0 / ms : 0.0;
}

}  // namespace

ChatSession::ChatSession(const Environment& env, const ChatOptions& options, Output& output,
                         LoadedModel loaded, std::unique_ptr<engine::Engine> engine)
    : env_(env),
      options_(options),
      output_(output),
      loaded_(std::move(loaded)),
      engine_(std::move(engine)),
      sequence_(engine_->create_sequence()),
      conversation_(loaded_.model->tokenizer(), *loaded_.model->chat_template()),
      seed_(static_cast<uint64_t>(options.sampling.seed)),
      policy_(options.generation.overflow) {}

Result<std::unique_ptr<ChatSession>> ChatSession::start(const Environment& env,
                                                        const ChatOptions& options,
                                                        Output& output) {
  warn_of_coarse_codecs(output, options.cache.kv);
  warn_of_many_threads(env, output, options.compute);
  QUIRE_TRY(LoadedModel loaded, load_model(env, options.model, "chat", output));
  if (loaded.model->chat_template() == nullptr) {
    return needs_template("chat", loaded.model->template_problem());
  }
  QUIRE_TRY(auto engine, engine::Engine::create(
                             *loaded.model, engine_options(env, options.compute, options.cache)));
  auto session = std::unique_ptr<ChatSession>(
      new ChatSession(env, options, output, std::move(loaded), std::move(engine)));
  QUIRE_TRY_VOID(session->prepare());
  return session;
}

/// What the options say about the conversation's beginning.
Result<void> ChatSession::prepare() {
  const PromptOptions& prompt = options_.prompt;
  if (prompt.system && prompt.messages_file) {
    return usage(
        "--messages and --system exclude each other; put the system message into the file");
  }
  if (options_.conversation && prompt.messages_file) {
    return usage("--conversation and --messages exclude each other; /load replaces the messages");
  }
  Json kwargs;
  add_template_kwargs(prompt, kwargs);
  conversation_.set_template_kwargs(std::move(kwargs));
  if (prompt.prefix_file) {
    QUIRE_TRY(const std::string prefix, env_.files.read(*prompt.prefix_file, kMaxPromptBytes));
    prefix_ = utf8_sanitized(prefix);
  }
  if (prompt.messages_file) QUIRE_TRY_VOID(load(*prompt.messages_file));
  if (options_.conversation) QUIRE_TRY_VOID(open_stored(*options_.conversation));
  if (prompt.system) conversation_.set_system(utf8_sanitized(*prompt.system));
  return {};
}

Result<void> ChatSession::open_stored(const std::string& name) {
  QUIRE_TRY_VOID(context::check_conversation_name(name));
  QUIRE_TRY(auto store, open_conversations(env_, output_));
  QUIRE_TRY(stored_, StoredConversation::open(std::move(store), name, model_name(model())));
  QUIRE_TRY(auto messages, stored_->messages());
  if (messages.empty()) {
    output_.remark(fmt::format("conversation '{}' begins", name));
    return {};
  }
  output_.remark(fmt::format(
      "conversation '{}' goes on after {} messages{}", name, messages.size(),
      messages.back().role == "user" ? "; the last has no answer: /retry asks again" : ""));
  QUIRE_TRY(auto view, stored_->view(messages));
  return conversation_.restore(std::move(messages), sent_with(std::move(view)));
}

void ChatSession::keep() {
  if (!stored_) return;
  const Result<void> kept = stored_->keep(conversation_.messages());
  if (!kept.ok()) {
    output_.complaint(kept.error().message + "; the chat goes on, and stores it with what follows");
  }
}

Result<void> ChatSession::finish() {
  if (!stored_) return {};
  return stored_->keep(conversation_.messages());
}

void ChatSession::set_system(std::string text) {
  const size_t before = conversation_.messages().size();
  conversation_.set_system(std::move(text));
  // Marks stay with their messages.
  const auto shift = conversation_.messages().size() - before;
  for (std::set<size_t>* marks : {&pinned_, &dropped_}) {
    std::set<size_t> moved;
    for (const size_t index : *marks) moved.insert(index + shift);
    *marks = std::move(moved);
  }
  keep();
}

std::optional<size_t> ChatSession::last_user_message() const {
  const auto& messages = conversation_.messages();
  for (size_t i = messages.size(); i-- > 0;) {
    if (messages[i].role == "user") return i;
  }
  return std::nullopt;
}

Result<FinishReason> ChatSession::say(std::string message, const Listener& listener) {
  const size_t before = conversation_.messages().size();
  message = utf8_sanitized(message);
  if (!prefix_.empty() && !last_user_message()) {
    const std::array pieces = {prefix_, message};
    message = join_by_blank_line(pieces);
  }
  conversation_.add("user", std::move(message));
  auto finish = answer(listener);
  if (!finish.ok()) conversation_.truncate(before);
  keep();
  return finish;
}

Result<FinishReason> ChatSession::retry(const Listener& listener) {
  const auto last = last_user_message();
  if (!last) return usage("/retry: there is no message to answer yet");
  const std::vector<engine::Conversation::Message> before = conversation_.messages();
  conversation_.truncate(*last + 1);
  ++seed_;
  auto finish = answer(listener);
  if (!finish.ok()) {
    for (size_t i = *last + 1; i < before.size(); ++i) {
      conversation_.add(before[i]);
    }
  }
  keep();
  return finish;
}

engine::GenerateOptions ChatSession::generate_options() const {
  engine::GenerateOptions options;
  options.sampling = resolve_sampling(options_.sampling, loaded_.model->sampling_defaults());
  options.sampling.seed = seed_;
  options.max_tokens = report_->max_tokens;
  options.stop = options_.generation.stop;
  options.draft.most = static_cast<int32_t>(options_.generation.draft);
  return options;
}

Result<SeenLog> ChatSession::seen(const GenerationOptions& options,
                                  context::window::Summarizer* summarizer) {
  if (!stored_) return seen_log(conversation_.request(), nullptr, dropped_);
  const PromptMaker maker = loaded_.prompt_maker();
  StoredWindow window{
      .stored = *stored_,
      .text = {maker.tokenizer, *maker.chat_template},
      .limits = limits_of(engine_->window(), loaded_.model->config().context),
      .policy = window_policy(options, options.max_tokens),
      .summarizer = summarizer,
      .render = [this](const context::ChatRequest& log) { return conversation_.prompt_of(log); },
      .pinned = pinned_,
      .left_out = dropped_,
      .output = output_};
  return seen_of_stored(window, conversation_.request(), conversation_.messages());
}

Result<engine::Prompt> ChatSession::fitted_prompt() {
  GenerationOptions options = options_.generation;
  options.overflow = policy_;
  ModelSummaries summaries(*loaded_.model, *engine_);
  QUIRE_TRY(const SeenLog sent, seen(options, summaries.summarizer()));
  QUIRE_TRY(engine::Prompt prompt, conversation_.prompt_of(sent.request));
  const auto render = [this](const context::ChatRequest& changed) {
    return conversation_.prompt_of(changed);
  };
  QUIRE_TRY(FittedPrompt fitted, fit_prompt({.maker = loaded_.prompt_maker(),
                                             .window = engine_->window(),
                                             .trained = loaded_.model->config().context,
                                             .options = options,
                                             .render = render,
                                             .pins = sent.pins(pinned_),
                                             .summarizer = summaries.summarizer()},
                                            std::move(prompt), options.max_tokens));
  say_what_changed(output_, fitted.report);
  report_ = std::move(fitted.report);
  for (context::window::PartReport& row : report_->parts) row.part = sent.renamed(row.part);
  return std::move(fitted.prompt);
}

Result<FinishReason> ChatSession::answer(const Listener& listener) {
  QUIRE_TRY(const engine::Prompt prompt, fitted_prompt());
  const engine::GenerateOptions generate = generate_options();
  // A message that can be answered is stored before it is: a crash loses no more than the answer.
  QUIRE_TRY_VOID(engine::check_request(*engine_, prompt.tokens, generate));
  keep();
  listener.on_prompt(prompt.text);
  const engine::GenerateEvents events{
      .on_prefill =
          [this](int64_t done, int64_t total) {
            output_.progress("reading", static_cast<double>(done) / static_cast<double>(total));
            return !interrupted();
          },
      .on_text =
          [&](std::string_view text) {
            output_.clear_progress();
            listener.on_text(text);
            return !interrupted();
          }};
  QUIRE_TRY(const engine::Generated generated,
            engine::generate(*engine_, sequence_, prompt.tokens, generate, events));
  output_.clear_progress();
  output_.detail(describe(generated.reuse, prompt, loaded_.model->tokenizer()));
  turns_.push_back({.prompt_tokens = generated.prompt_tokens,
                    .cached_tokens = generated.reuse.cached_tokens,
                    .new_tokens = static_cast<int64_t>(generated.tokens.size()),
                    .prefill_ms = generated.timings.prefill_ms,
                    .decode_tok_s = decode_tok_s(generated)});
  // Stopped before its first token: there is no answer to keep.
  if (generated.finish == FinishReason::kInterrupted && generated.tokens.empty()) {
    return Error{ErrorCode::kInterrupted, "stopped before the answer began; the message is undone"};
  }
  conversation_.add_answer(prompt, generated.text, generated.tokens);
  return generated.finish;
}

Result<std::string> ChatSession::undo() {
  const auto last = last_user_message();
  if (!last) return usage("there is no message to take back");
  std::string message = conversation_.messages()[*last].content;
  conversation_.truncate(*last);
  forget_marks(*last);
  keep();
  return message;
}

Result<std::string> ChatSession::undo_compaction(const std::string& handle) {
  if (!stored_) return usage("/undo HANDLE is for a chat with --conversation: its log is kept");
  QUIRE_TRY(const auto view, stored_->view(conversation_.messages()));
  const auto has = [&](const LogView::Item& item) {
    return item.text && item.text->find("undo " + handle + "]") != std::string::npos;
  };
  const bool named = view && (handle == fmt::format("v{}", view->id.value) ||
                              std::ranges::any_of(view->items, has));
  if (!named) {
    return usage(fmt::format(
        "there is no {} to undo; {}", formats::printable(handle),
        view ? fmt::format("the log is sent as v{}", view->id.value) : "the log is sent as it is"));
  }
  QUIRE_TRY_VOID(stored_->drop_view(view->id));
  return fmt::format("v{} is undone: what it stood for is sent again", view->id.value);
}

void ChatSession::clear() {
  const auto& messages = conversation_.messages();
  const bool has_system = !messages.empty() && messages.front().role == "system";
  conversation_.truncate(has_system ? 1 : 0);
  forget_marks(0);
  keep();
}

Result<void> ChatSession::save(const std::string& file) const {
  Json messages(Json::Array{});
  for (const auto& message : conversation_.messages()) {
    Json entry;
    entry.set("role", message.role);
    entry.set("content", message.content);
    messages.push_back(std::move(entry));
  }
  Json json;
  json.set("messages", std::move(messages));
  return env_.files.write_atomically(file, json.dump(2) + "\n");
}

Result<void> ChatSession::load(const std::string& file) {
  QUIRE_TRY(const std::string text, env_.files.read(file, kMaxPromptBytes));
  QUIRE_TRY(const Json document, Json::parse(text, file));
  const Json* messages = document.is_array() ? &document : document.find("messages");
  if (messages == nullptr || !messages->is_array()) {
    return usage(fmt::format("{} holds no conversation: no array \"messages\"", file));
  }
  std::vector<engine::Conversation::Message> loaded;
  for (const Json& entry : *messages->as_array()) {
    const Json* role = entry.find("role");
    const Json* content = entry.find("content");
    if (role == nullptr || !role->is_string() || content == nullptr || !content->is_string()) {
      return usage(fmt::format("{}: message {} is not a \"role\" with a text as \"content\"", file,
                               loaded.size()));
    }
    loaded.push_back({*role->as_string(), *content->as_string()});
  }
  conversation_.truncate(0);
  forget_marks(0);
  for (auto& message : loaded) {
    conversation_.add(std::move(message.role), std::move(message.content));
  }
  keep();
  return {};
}

std::string ChatSession::stats() const {
  if (turns_.empty()) return "nothing was asked yet\n";
  std::string out = fmt::format("{:>4} {:>8} {:>8} {:>10} {:>10} {:>8} {:>8}\n", "turn", "prompt",
                                "cached", "prefilled", "in ms", "new", "tok/s");
  int64_t index = 0;
  for (const TurnStats& turn : turns_) {
    out +=
        fmt::format("{:>4} {:>8} {:>8} {:>10} {:>10.0f} {:>8} {:>8.1f}\n", ++index,
                    turn.prompt_tokens, turn.cached_tokens, turn.prompt_tokens - turn.cached_tokens,
                    turn.prefill_ms, turn.new_tokens, turn.decode_tok_s);
  }
  const engine::MemoryReport memory = engine_->memory();
  return out + fmt::format("keys and values {} ({}), weights {}, scratch {}; seed {}\n",
                           format_bytes(memory.kv), kv::name(engine_->geometry().codecs()),
                           format_bytes(memory.weights), format_bytes(memory.activation), seed_);
}

std::string ChatSession::window() const {
  const engine::Window& window = engine_->window();
  const int64_t used = sequence_.length();
  std::string out = fmt::format(
      "{} of {} tokens, {} left (limit: {}); policy {}\n", format_count(used),
      format_count(window.tokens), format_count(window.tokens - used), engine::name(window.limit),
      context::window::name(policy_.value_or(context::window::Policy::kReject)));
  if (!report_) return out;
  const bool colours = output_.interactive() && env_.colour_wanted;
  return out +
         window_bar(*report_, colours ? BarColour::kColours : BarColour::kLetters, kBarCells) +
         window_table(*report_);
}

Result<std::string> ChatSession::policy(const std::string& name) {
  if (!name.empty()) {
    const auto known = context::window::policy_of(name);
    if (!known) return usage("/policy wants one of " + context::window::policy_names());
    policy_ = known;
  }
  return fmt::format("turns that do not fit: {}",
                     context::window::name(policy_.value_or(context::window::Policy::kReject)));
}

Result<size_t> ChatSession::message_at(std::string_view command, const std::string& index) const {
  const size_t mark = index.find('#');
  const auto number = parse_int(mark == std::string::npos ? index : index.substr(mark + 1));
  const size_t count = conversation_.messages().size();
  if (!number || *number < 0 || *number >= static_cast<int64_t>(count)) {
    return usage(fmt::format("{} wants the number of a message, from 0 to {}", command,
                             count == 0 ? 0 : count - 1));
  }
  return static_cast<size_t>(*number);
}

Result<std::string> ChatSession::pin(const std::string& index) {
  QUIRE_TRY(const size_t message, message_at("/pin", index));
  if (dropped_.contains(message)) {
    return usage(fmt::format("message {} is dropped; nothing is left to pin", message));
  }
  pinned_.insert(message);
  return fmt::format("message {} stays whatever happens", message);
}

Result<std::string> ChatSession::drop(const std::string& index) {
  QUIRE_TRY(const size_t message, message_at("/drop", index));
  const auto& messages = conversation_.messages();
  // The whole turn: from the question to the next.
  size_t begin = message;
  while (begin > 0 && messages[begin].role != "user") --begin;
  if (messages[begin].role != "user") {
    return usage("/drop takes turns; /system without a text removes the system message");
  }
  size_t end = begin + 1;
  while (end < messages.size() && messages[end].role != "user") ++end;
  for (size_t i = begin; i < end; ++i) {
    dropped_.insert(i);
    pinned_.erase(i);
  }
  return fmt::format("messages {} to {} are no longer sent; the conversation keeps them", begin,
                     end - 1);
}

void ChatSession::forget_marks(size_t count) {
  pinned_.erase(pinned_.lower_bound(count), pinned_.end());
  dropped_.erase(dropped_.lower_bound(count), dropped_.end());
}

}  // namespace quire::cli
