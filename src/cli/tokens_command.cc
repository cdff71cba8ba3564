// tokens: what the model will really see, counted part by part. Needs no weights.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>

#include "base/byte_size.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/model_path.h"
#include "cli/option_parser.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/pieces.h"
#include "cli/prompt_input.h"
#include "cli/session.h"
#include "engine/describe.h"
#include "formats/model_files.h"

namespace quire::cli {
namespace {

using formats::Json;

constexpr size_t kMostModels = 64;
constexpr size_t kMostPiecesShown = 200;
constexpr size_t kMostPiecesColoured = 4000;

struct TokensOptions {
  OutputOptions output;
  ModelOptions model;
  PromptOptions prompt;
  std::optional<int64_t> context;
};

/// What one model makes of the prompt.
struct Count {
  std::string model;
  engine::ModelText text;
  engine::Prompt prompt;
  std::optional<int64_t> window;
};

/// How pieces are shown to people.
enum class Pieces : uint8_t { kListed, kColoured };

Json parts_json(const engine::Prompt& prompt) {
  Json parts(Json::Array{});
  for (const engine::PromptPart& part : prompt.parts) {
    Json entry;
    entry.set("what", part.what);
    entry.set("tokens", part.tokens);
    parts.push_back(std::move(entry));
  }
  return parts;
}

Json to_json(const Count& count) {
  const engine::Prompt& prompt = count.prompt;
  const auto tokens = static_cast<int64_t>(prompt.tokens.size());
  Json json;
  json.set("model", count.model);
  json.set("ids", ids_json(prompt.tokens));
  json.set("pieces", pieces_json(*count.text.tokenizer, prompt.tokens));
  json.set("count", tokens);
  json.set("characters", static_cast<int64_t>(utf8_length(prompt.text)));
  json.set("bytes", static_cast<int64_t>(prompt.text.size()));
  json.set("parts", parts_json(prompt));
  json.set("window", count.window ? Json(*count.window) : Json());
  json.set("left", count.window ? Json(*count.window - tokens) : Json());
  json.set("prompt", utf8_sanitized(prompt.text));
  return json;
}

std::string window_line(const Count& count) {
  if (!count.window) return "window: unknown (no config.json)\n";
  const int64_t left = *count.window - static_cast<int64_t>(count.prompt.tokens.size());
  const std::string window = format_count(*count.window);
  if (left < 0) return fmt::format("window: {}, exceeded by {}\n", window, format_count(-left));
  return fmt::format("window: {}, {} left\n", window, format_count(left));
}

std::string pieces_table(const Count& count) {
  std::string out;
  size_t shown = 0;
  for (const TokenId id : count.prompt.tokens) {
    if (shown++ == kMostPiecesShown) {
      return out + fmt::format("  ... {} more (--json lists all)\n",
                               count.prompt.tokens.size() - kMostPiecesShown);
    }
    out += fmt::format("{:>8}  '{}'\n", id.value, one_line(count.text.tokenizer->piece(id)));
  }
  return out;
}

/// The prompt as it stands, each token on a ground of its own colour, control tokens on red. Bytes
/// that a terminal would obey are escaped.
std::string coloured_pieces(const Count& count) {
  static constexpr const char* kGrounds[] = {"\x1b[30;46m", "\x1b[30;43m", "\x1b[30;42m",
                                             "\x1b[30;45m"};
  static constexpr const char* kControl = "\x1b[1;37;41m";
  static constexpr const char* kReset = "\x1b[0m";
  const context::Tokenizer& tokenizer = *count.text.tokenizer;
  const std::vector<TokenId>& tokens = count.prompt.tokens;
  std::string out;
  for (size_t i = 0; i < std::min(tokens.size(), kMostPiecesColoured); ++i) {
    const std::string_view piece = tokenizer.piece(tokens[i]);
    const char* ground =
        tokenizer.is_control(tokens[i]) ? kControl : kGrounds[i % std::size(kGrounds)];
    // A line of the prompt ends a line on the screen; the mark shows which token it belongs to.
    for (size_t at = 0; at < piece.size();) {
      const size_t end = std::min(piece.find('\n', at), piece.size());
      const bool ends_line = end < piece.size();
      out += fmt::format("{}{}{}{}", ground, one_line(piece.substr(at, end - at)),
                         ends_line ? "\u21b5" : "", kReset);
      if (ends_line) out += '\n';
      at = end + 1;
    }
  }
  if (!out.empty()) out += '\n';
  if (tokens.size() > kMostPiecesColoured) {
    out +=
        fmt::format("... {} more tokens (--json lists all)\n", tokens.size() - kMostPiecesColoured);
  }
  return out;
}

std::string for_people(const Count& count, Pieces pieces) {
  std::string out = pieces == Pieces::kColoured ? coloured_pieces(count) : pieces_table(count);
  out += fmt::format("{} tokens, {} characters, {} bytes\n",
                     format_count(static_cast<int64_t>(count.prompt.tokens.size())),
                     format_count(static_cast<int64_t>(utf8_length(count.prompt.text))),
                     format_count(static_cast<int64_t>(count.prompt.text.size())));
  if (count.prompt.parts.size() > 1) {
    for (const engine::PromptPart& part : count.prompt.parts) {
      out += fmt::format("{:>8}  {}\n", format_count(part.tokens), part.what);
    }
  }
  return out + window_line(count);
}

/// One line a model; how many more tokens than the most frugal one needs.
std::string comparison(const std::vector<Count>& counts, Pieces pieces) {
  size_t width = 5;
  size_t fewest = std::numeric_limits<size_t>::max();
  for (const Count& count : counts) {
    width = std::max(width, count.model.size());
    fewest = std::min(fewest, count.prompt.tokens.size());
  }
  std::string out;
  if (pieces == Pieces::kColoured) {
    for (const Count& count : counts) {
      out += fmt::format("{}\n{}\n", count.model, coloured_pieces(count));
    }
  }
  out += fmt::format("{:<{}}  {:>10}  {:>8}  {:>10}  {:>10}\n", "model", width, "tokens", "more",
                     "window", "left");
  for (const Count& count : counts) {
    const auto tokens = static_cast<int64_t>(count.prompt.tokens.size());
    const double more =
        fewest == 0 ? 0 : 100.0 * static_cast<double>(tokens) / static_cast<double>(fewest) - 100;
    out += fmt::format("{:<{}}  {:>10}  {:>6.0f} %  {:>10}  {:>10}\n", count.model, width,
                       format_count(tokens), more, count.window ? format_count(*count.window) : "-",
                       count.window ? format_count(*count.window - tokens) : "-");
  }
  return out;
}

/// What the model was trained for, at most --ctx; nothing if the files do not say.
Result<std::optional<int64_t>> window_of(const formats::ModelFiles& files,
                                         std::optional<int64_t> asked) {
  const std::optional<int64_t> trained = engine::trained_context(files);
  if (!trained) return asked;
  QUIRE_TRY(const engine::Window window, engine::resolve_window(*trained, asked, *trained));
  return std::optional(window.tokens);
}

Result<Count> count_tokens(const Environment& env, const TokensOptions& options,
                           const std::string& path, const PromptOptions& prompt, Output& output) {
  Count count;
  count.model = path;
  QUIRE_TRY(const formats::ModelFiles files,
            formats::ModelFiles::open(env.files, path, formats::OpenMode::kMetadataOnly));
  QUIRE_TRY(const auto chat_template, read_chat_template(env, options.model));
  QUIRE_TRY(count.text, engine::load_model_text(files, chat_template));
  QUIRE_TRY(count.window, window_of(files, options.context));
  const auto& own = count.text.chat_template;
  const PromptMaker maker{*count.text.tokenizer, own ? &*own : nullptr,
                          count.text.template_problem};
  QUIRE_TRY(count.prompt, read_prompt(env, maker, prompt, DefaultRendering::kTemplate, output));
  return count;
}

/// Several models read the same prompt, but stdin can be read once only.
Result<PromptOptions> with_stdin_read(const Environment& env, PromptOptions prompt,
                                      Output& output) {
  using Kind = PromptOptions::Piece::Kind;
  if (prompt.pieces.empty() && !prompt.messages_file) prompt.pieces.push_back({Kind::kFile, "-"});
  for (PromptOptions::Piece& piece : prompt.pieces) {
    if (piece.kind != Kind::kFile || piece.content != "-") continue;
    PromptOptions only_stdin;
    only_stdin.pieces.push_back(piece);
    QUIRE_TRY(std::string text, read_prompt_text(env, only_stdin, output));
    piece = {Kind::kText, std::move(text)};
  }
  return prompt;
}

Result<void> run_tokens(const Command& self, const Environment& env,
                        std::span<const std::string> args) {
  TokensOptions options;
  OptionParser parser("quire tokens");
  declare(parser, options.model, kMostModels);
  declare(parser, options.prompt);
  parser.heading("Window");
  parser.add({{"-c", "--ctx", "--context"},
              "N",
              "the window to count against (default: what the model was trained for)",
              store_int(options.context, 1, INT32_MAX)});
  declare(parser, options.output);
  QUIRE_TRY(const bool helped, parse_or_help(self, env, parser, args));
  if (helped) return {};

  Output output(env, options.output);
  if (options.model.models.empty()) return only_model(env, {}, "tokens").error();
  std::vector<std::string> paths;
  for (const std::string& model : options.model.models) {
    QUIRE_TRY(std::string path, resolve_model(env, model));
    paths.push_back(std::move(path));
  }
  QUIRE_TRY(const PromptOptions prompt, with_stdin_read(env, options.prompt, output));
  std::vector<Count> counts;
  for (const std::string& path : paths) {
    QUIRE_TRY(Count count, count_tokens(env, options, path, prompt, output));
    counts.push_back(std::move(count));
  }
  const Pieces pieces =
      output.interactive() && env.colour_wanted ? Pieces::kColoured : Pieces::kListed;
  if (counts.size() == 1) {
    output.text(for_people(counts.front(), pieces));
    return output.finish(to_json(counts.front()));
  }
  output.text(comparison(counts, pieces));
  Json models(Json::Array{});
  for (const Count& count : counts) models.push_back(to_json(count));
  Json json;
  json.set("models", std::move(models));
  return output.finish(json);
}

}  // namespace

const Command kTokensCommand = {
    .name = "tokens",
    .arguments = "MODEL... [options]",
    .summary = "count what the model will really see (needs no weights)",
    .example =
        "  quire tokens model.gguf -p 'Why is the sky blue?'\n"
        "  quire tokens a.gguf b.gguf -f report.txt\n",
    .run = run_tokens,
};

}  // namespace quire::cli
