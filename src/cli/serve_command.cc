// serve: the OpenAI-compatible server.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "base/byte_size.h"
#include "base/machine.h"
#include "cli/commands.h"
#include "cli/home.h"
#include "cli/interrupt.h"
#include "cli/model_path.h"
#include "cli/option_parser.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/session.h"
#include "engine/engine_loop.h"
#include "formats/printable.h"
#include "plan/memory_plan.h"
#include "plan/source.h"
#include "server/server.h"

namespace quire::cli {
namespace {

constexpr std::chrono::milliseconds kGrace{10'000};
constexpr std::chrono::milliseconds kPollSignals{20};
// Requests wait for the store one behind the other.
constexpr std::chrono::milliseconds kLockWait{2'000};
constexpr int64_t kDefaultSequences = 16;
constexpr int64_t kDefaultQueue = 256;

struct ServeOptions {
  ModelOptions model;
  ComputeOptions compute;
  CacheOptions cache;
  OutputOptions output;
  std::string host = "127.0.0.1";
  int64_t port = 8080;
  std::string api_key_file;
  std::vector<std::string> aliases, allowed_hosts, cors_origins;
  std::optional<int64_t> memory, max_input, max_output;
  int64_t max_sequences = kDefaultSequences;
  int64_t max_queue = kDefaultQueue;
  int64_t draft = engine::DraftOptions().most;
  bool any_model = false;
  std::string store_file;  // "": the default
  bool no_store = false;
  server::LogLevel log_level = server::LogLevel::kInfo;
};

Error usage(std::string message) {
  return {ErrorCode::kUsage, std::move(message)};
}

void declare_access(OptionParser& parser, ServeOptions& options) {
  parser.heading("Who may ask");
  parser.add({{"--host"},
              "ADDRESS",
              "where to listen (127.0.0.1); another machine's reach needs a key",
              store(options.host)});
  parser.add({{"--port"}, "N", "port (8080; 0: any free one)", store_int(options.port, 0, 65535)});
  parser.add({{"--api-key-file"},
              "FILE",
              "keys, one a line, each a tenant with a cache of its own (or QUIRE_API_KEY)",
              store(options.api_key_file)});
  parser.add({{"--api-key"},
              "KEY",
              "",
              refuse("keys on the command line show in process lists; use --api-key-file FILE or "
                     "QUIRE_API_KEY")});
  parser.add({{"--allowed-host"},
              "NAME",
              "a name under which clients reach this server; may repeat",
              append(options.allowed_hosts)});
  parser.add({{"--cors-origin"},
              "ORIGIN",
              "a web page's origin that may use it; may repeat; * for any",
              append(options.cors_origins)});
}

void declare_limits(OptionParser& parser, ServeOptions& options) {
  parser.heading("How much");
  parser.add({{"--memory"},
              "BYTES",
              "ceiling for weights, keys and values, and scratch (80 % of what is available)",
              [&options](std::string_view option, std::string_view value) -> Result<void> {
                options.memory = parse_byte_size(value);
                if (options.memory && *options.memory > 0) return {};
                return usage(fmt::format("{} wants a size such as 24G, not '{}'", option,
                                         formats::printable(value)));
              }});
  parser.add({{"--max-sequences", "-np", "--parallel"},
              "N",
              "answers that are computed together (16)",
              store_int(options.max_sequences, 1, 1024)});
  parser.add({{"--max-queue"},
              "N",
              "requests that may wait beyond those; others get 429 (256)",
              store_int(options.max_queue, 0, 1'000'000)});
  declare_draft(parser, options.draft);
  parser.add({{"--max-input"},
              "N",
              "tokens that a prompt may have (default: the window)",
              store_int(options.max_input, 1, INT32_MAX)});
  parser.add({{"--max-output"},
              "N",
              "tokens that an answer may have (default: the window)",
              store_int(options.max_output, 1, INT32_MAX)});
}

void declare_store(OptionParser& parser, ServeOptions& options) {
  parser.heading("What is kept");
  parser.add({{"--store"},
              "FILE",
              "where responses and conversations are kept (QUIRE_HOME/server-conversations.db)",
              store(options.store_file)});
  parser.add({{"--no-store"},
              "",
              "keep none: clients send the whole conversation each time",
              set(options.no_store)});
}

void declare_serve(OptionParser& parser, ServeOptions& options) {
  declare(parser, options.model);
  parser.add({{"--alias", "-a"},
              "NAME",
              "what clients call the model (default: its file's name); may repeat",
              append(options.aliases)});
  parser.add({{"--any-model"}, "", "answer to every model name", set(options.any_model)});
  declare_access(parser, options);
  declare_limits(parser, options);
  declare_store(parser, options);
  declare(parser, options.cache);
  declare(parser, options.compute);
  declare(parser, options.output);
  parser.add({{"--log-level"},
              "L",
              "error, warn, info (default) or debug",
              [&options](std::string_view option, std::string_view value) -> Result<void> {
                const auto level = server::log_level_from_name(value);
                if (!level) {
                  return usage(fmt::format("{} wants error, warn, info or debug, not '{}'", option,
                                           formats::printable(value)));
                }
                options.log_level = *level;
                return {};
              }});
}

Result<server::ApiKeys> load_keys(const Environment& env, const ServeOptions& options) {
  std::vector<std::string> keys;
  if (!options.api_key_file.empty()) {
    QUIRE_TRY(keys, server::read_api_keys(env.files, options.api_key_file));
  } else if (!env.api_key.empty()) {
    QUIRE_TRY(keys, server::parse_api_keys(env.api_key, "QUIRE_API_KEY"));
  }
  if (keys.empty()) return server::ApiKeys();
  return server::ApiKeys(std::move(keys), server::random_secret());
}

/// Where conversations are kept; null for nowhere.
Result<std::unique_ptr<context::ConversationStore>> open_store(const Environment& env,
                                                               const ServeOptions& options,
                                                               Output& output) {
  if (options.no_store && !options.store_file.empty()) {
    return usage("--store and --no-store exclude each other");
  }
  if (options.no_store) return std::unique_ptr<context::ConversationStore>();
  std::string path = options.store_file;
  if (path.empty()) {
    QUIRE_TRY(const std::string home, private_home(env, output));
    path = server_conversations_path(env);
  }
  auto store = context::ConversationStore::open(path, context::ConversationStore::system_clock_ms,
                                                kLockWait);
  if (store.ok()) return store;
  return Error{store.error().code,
               fmt::format("{}; --no-store serves without", store.error().message)};
}

/// What clients call the model: the file's name without its suffix.
std::string default_name(const std::string& path) {
  std::filesystem::path name = std::filesystem::path(path).lexically_normal();
  if (name.filename().empty()) name = name.parent_path();
  return name.extension() == ".gguf" ? name.stem().string() : name.filename().string();
}

/// As many connections as the system lets this process have, not as many as shells start with.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;  // then the limit stays what it is
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

class Serve {
 public:
  Serve(const Environment& env, const ServeOptions& options, Output& output)
      : env_(env), options_(options), output_(output), log_(env.err, options.log_level) {}

  Result<void> execute() {
    raise_descriptor_limit();
    QUIRE_TRY(const std::string path, only_model(env_, options_.model.models, "serve"));
    QUIRE_TRY(server::ApiKeys keys, load_keys(env_, options_));
    warn_of_coarse_codecs(output_, options_.cache.kv);
    warn_of_many_threads(env_, output_, options_.compute);
    QUIRE_TRY(auto store, open_store(env_, options_, output_));
    QUIRE_TRY(server_,
              server::Server::start(server_options(path), std::move(keys), log_, std::move(store)));
    QUIRE_TRY(shape_, plan::shape_of_path(env_.files, path));
    QUIRE_TRY_VOID(load());
    loop_ = std::make_unique<engine::EngineLoop>(*engine_, loop_options());
    server_->serve({.model = *loaded_.model,
                    .engine = *engine_,
                    .loop = *loop_,
                    .constraints = constraints_ ? &*constraints_ : nullptr,
                    .template_source = template_source_,
                    .parameters = shape_.parameters(),
                    .weight_types = shape_.stored ? shape_.stored->types : "",
                    .max_sequences = static_cast<int32_t>(options_.max_sequences)});
    QUIRE_TRY_VOID(announce(path));
    while (!interrupted()) std::this_thread::sleep_for(kPollSignals);
    log_.write(server::LogLevel::kInfo, "stopping", {});
    server_->stop(kGrace);
    log_.write(server::LogLevel::kInfo, "stopped", {});
    return {};
  }

 private:
  server::ServerOptions server_options(const std::string& path) const {
    server::ServerOptions options;
    options.host = options_.host;
    options.port = static_cast<uint16_t>(options_.port);
    options.serving.names = options_.aliases;
    if (options.serving.names.empty()) options.serving.names.push_back(default_name(path));
    options.serving.any_model = options_.any_model;
    options.serving.max_input = options_.max_input;
    options.serving.max_output = options_.max_output;
    options.serving.most_drafts = static_cast<int32_t>(options_.draft);
    options.serving.allowed_hosts = options_.allowed_hosts;
    options.serving.allowed_origins = options_.cors_origins;
    return options;
  }

  engine::EngineLoopOptions loop_options() const {
    engine::EngineLoopOptions options;
    options.scheduler.max_sequences = static_cast<int32_t>(options_.max_sequences);
    options.max_queue = static_cast<int32_t>(options_.max_queue);
    return options;
  }

  Result<void> load() {
    // Before the weights are in memory.
    const Machine machine = inspect_machine(env_.files);
    memory_ = options_.memory.value_or(machine.available_memory_bytes / 5 * 4);
    QUIRE_TRY(loaded_, load_model(env_, options_.model, "serve", output_));
    const int64_t weights = loaded_.model->weights_bytes();
    if (weights >= memory_) {
      return Error{ErrorCode::kDoesNotFit,
                   fmt::format("--memory {}: the weights alone take {}", format_bytes(memory_),
                               format_bytes(weights))};
    }
    engine::EngineOptions wanted = engine_options(env_, options_.compute, options_.cache);
    wanted.memory_bytes = memory_ - weights;
    wanted.static_sequences = static_cast<int32_t>(options_.max_sequences);
    QUIRE_TRY(engine_, engine::Engine::create(*loaded_.model, wanted));
    return load_constraints();
  }

  /// What holds answers to a format. A vocabulary that cannot be held to one serves without.
  Result<void> load_constraints() {
    QUIRE_TRY(const auto given, read_chat_template(env_, options_.model));
    const context::Tokenizer& tokenizer = loaded_.model->tokenizer();
    template_source_ = given.value_or(tokenizer.chat_template().value_or(""));
    auto constraints =
        engine::JsonConstraints::create(tokenizer, server::all_end_tokens(*loaded_.model));
    if (constraints.ok()) {
      constraints_.emplace(*std::move(constraints));
    } else {
      output_.remark(
          fmt::format("answers cannot be held to a format: {}", constraints.error().message));
    }
    return {};
  }

  /// How many users of so many tokens fit at once.
  std::string capacity() const {
    const int64_t window = engine_->window().tokens;
    const auto users = [&](int64_t tokens) {
      const plan::PlanRequest request{.context = tokens,
                                      .kv = options_.cache.kv,
                                      .prefill_chunk = options_.compute.prefill_chunk,
                                      .threads = engine_->num_threads(),
                                      .memory = memory_};
      return plan::max_sequences(shape_, request);
    };
    const int64_t longest = std::min<int64_t>(window, 8192);
    if (longest <= 2000) {
      return fmt::format("{} users at {} tokens", format_count(users(longest)),
                         format_count(longest));
    }
    return fmt::format("{} users at {} tokens or {} at 2,000", format_count(users(longest)),
                       format_count(longest), format_count(users(2000)));
  }

  Result<void> announce(const std::string& path) {
    const std::string users = capacity();
    const int64_t kv_budget = engine_->kv_stats().bytes_budget;
    output_.text(fmt::format("serving {} at {}\n", default_name(path), server_->url()));
    output_.text(fmt::format("weights {}, {} for keys and values ({}), window {} tokens\n",
                             format_bytes(loaded_.model->weights_bytes()), format_bytes(kv_budget),
                             kv::name(options_.cache.kv), format_count(engine_->window().tokens)));
    output_.text(users + "\n");
    formats::Json json;
    json.set("url", server_->url());
    json.set("weights_bytes", loaded_.model->weights_bytes());
    json.set("kv_budget_bytes", kv_budget);
    json.set("window", engine_->window().tokens);
    json.set("capacity", users);
    return output_.finish(json);
  }

  const Environment& env_;
  const ServeOptions& options_;
  Output& output_;
  server::EventLog log_;
  int64_t memory_ = 0;
  plan::ModelShape shape_;
  LoadedModel loaded_;
  std::unique_ptr<engine::Engine> engine_;
  std::string template_source_;
  std::optional<engine::JsonConstraints> constraints_;
  std::unique_ptr<engine::EngineLoop> loop_;
  std::unique_ptr<server::Server> server_;  // goes first
};

Result<void> run_serve(const Command& self, const Environment& env,
                       std::span<const std::string> args) {
  ServeOptions options;
  OptionParser parser("quire serve");
  declare_serve(parser, options);
  QUIRE_TRY(const bool helped, parse_or_help(self, env, parser, args));
  if (helped) return {};
  Output output(env, options.output);
  return Serve(env, options, output).execute();
}

}  // namespace

const Command kServeCommand = {
    .name = "serve",
    .arguments = "MODEL [options]",
    .summary = "answer over HTTP, as OpenAI's API does",
    .example =
        "  quire serve model.gguf\n"
        "  quire serve model.gguf --port 8000 --alias assistant --memory 4G\n"
        "  quire serve model.gguf --host 0.0.0.0 --api-key-file keys.txt --allowed-host "
        "llm.example.org\n",
    .run = run_serve,
};

}  // namespace quire::cli
