// history: stored conversations: listed, shown, searched, forked, exported, removed.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/byte_size.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/home.h"
#include "cli/option_parser.h"
#include "cli/output.h"
#include "cli/pieces.h"
#include "context/search_text.h"

namespace quire::cli {
namespace {

using context::ConversationInfo;
using context::ConversationStore;
using context::kLocalOwner;
using context::MessageId;
using context::StoredMessage;
using formats::Json;

constexpr size_t kMostArguments = 1000;
constexpr size_t kExcerptCharacters = 70;
constexpr int64_t kMostHits = 100'000;

struct HistoryOptions {
  std::vector<std::string> arguments;  // the action and what it acts on
  std::optional<int64_t> at;
  bool all = false;
  bool view = false;
  int64_t limit = 20;
  std::string format = "json";
  OutputOptions output;
};

Error usage(std::string message) {
  return {ErrorCode::kUsage, std::move(message)};
}

/// What a terminal would obey becomes visible; lines stay lines.
std::string shown_text(std::string_view text) {
  std::string out;
  for (const std::string_view line : split(text, '\n')) {
    if (!out.empty()) out += '\n';
    out += one_line(line);
  }
  return out;
}

Json message_json(const StoredMessage& stored) {
  Json json;
  json.set("id", stored.id.value);
  json.set("parent", stored.parent ? Json(stored.parent->value) : Json());
  json.set("role", utf8_sanitized(stored.message.role));
  json.set("content", utf8_sanitized(stored.message.content));
  if (!stored.message.fields.is_null()) json.set("fields", stored.message.fields);
  if (!stored.message.model.empty()) json.set("model", utf8_sanitized(stored.message.model));
  json.set("created_ms", stored.created_ms);
  return json;
}

/// As --messages reads it.
Json plain_message(const StoredMessage& stored) {
  Json json;
  json.set("role", utf8_sanitized(stored.message.role));
  json.set("content", utf8_sanitized(stored.message.content));
  if (const Json::Object* fields = stored.message.fields.as_object()) {
    for (const auto& [name, value] : *fields) json.set(name, value);
  }
  return json;
}

Json info_json(const ConversationInfo& info) {
  Json json;
  json.set("name", info.name);
  json.set("id", info.handle);
  json.set("messages", info.messages);
  json.set("branches", info.branches);
  json.set("head", info.head ? Json(info.head->value) : Json());
  json.set("created_ms", info.created_ms);
  json.set("changed_ms", info.changed_ms);
  return json;
}

Json messages_json(const std::vector<StoredMessage>& messages) {
  Json json(Json::Array{});
  for (const StoredMessage& message : messages) json.push_back(message_json(message));
  return json;
}

/// "#3 assistant (smollm2.gguf)".
std::string heading(const StoredMessage& stored) {
  std::string text = fmt::format("#{} {}", stored.id.value, shown_text(stored.message.role));
  if (!stored.message.model.empty()) text += fmt::format(" ({})", one_line(stored.message.model));
  return text;
}

class History {
 public:
  History(const Environment& env, const HistoryOptions& options, Output& output)
      : env_(env), options_(options), output_(output) {}

  Result<void> execute() {
    struct Action {
      std::string_view name;
      size_t least, most;  // arguments behind it
      std::string_view arguments;
      Result<void> (History::*run)();
    };
    constexpr std::array kActions = {
        Action{"ls", 0, 0, "", &History::ls},
        Action{"show", 1, 1, " NAME", &History::show},
        Action{"search", 1, kMostArguments, " WORDS", &History::search},
        Action{"fork", 2, 2, " NAME NEW_NAME", &History::fork},
        Action{"export", 1, 1, " NAME", &History::export_one},
        Action{"rm", 1, kMostArguments, " NAME...", &History::rm},
    };
    const std::string& name = options_.arguments.empty() ? "" : options_.arguments.front();
    const auto* action = std::ranges::find(kActions, name, &Action::name);
    if (action == kActions.end()) {
      return usage(
          "history wants one of ls, show, search, fork, export, rm ('quire history --help')");
    }
    const size_t given = options_.arguments.size() - 1;
    if (given < action->least || given > action->most) {
      return usage(fmt::format("this is 'quire history {}{}'", name, action->arguments));
    }
    QUIRE_TRY(store_, open_conversations(env_, output_));
    return (this->*action->run)();
  }

 private:
  const std::string& argument(size_t index) const { return options_.arguments[index + 1]; }

  Result<ConversationInfo> conversation(const std::string& name) {
    QUIRE_TRY(ConversationStore::Found found, store_->find(kLocalOwner, name));
    if (!found) {
      QUIRE_TRY(found, store_->find_by_handle(kLocalOwner, name));
    }
    if (!found) {
      return Error{ErrorCode::kNotFound,
                   fmt::format("there is no conversation '{}'; 'quire history ls' lists them",
                               one_line(name))};
    }
    return *std::move(found);
  }

  std::optional<MessageId> place(const ConversationInfo& info) const {
    return options_.at ? std::optional(MessageId{*options_.at}) : info.head;
  }

  Result<void> ls() {
    QUIRE_TRY(const std::vector<ConversationInfo> conversations, store_->list(kLocalOwner));
    Json list(Json::Array{});
    if (conversations.empty())
      output_.remark("no conversations yet: 'quire chat MODEL --conversation NAME'");
    for (const ConversationInfo& info : conversations) {
      list.push_back(info_json(info));
      output_.text(fmt::format("{}  {:>5} messages  {:>2} {}  {}\n", shown_time(info.changed_ms),
                               info.messages, info.branches,
                               info.branches == 1 ? "branch  " : "branches",
                               info.name.empty() ? info.handle : info.name));
    }
    Json json;
    json.set("conversations", std::move(list));
    return output_.finish(json);
  }

  Result<void> show() {
    QUIRE_TRY(const ConversationInfo info, conversation(argument(0)));
    QUIRE_TRY(const std::vector<StoredMessage> all, store_->all_messages(info.id));
    QUIRE_TRY(const std::vector<StoredMessage> path, store_->path(info.id, place(info)));
    QUIRE_TRY(const std::optional<context::View> view, newest_view(info, path));
    if (options_.view) {
      show_view(view, path);
    } else if (view) {
      output_.remark(fmt::format("the model is sent v{} of it, by {}: --view", view->id.value,
                                 one_line(view->policy)));
    }
    for (const StoredMessage& stored : options_.view  ? std::vector<StoredMessage>()
                                       : options_.all ? all
                                                      : path) {
      std::string line = heading(stored);
      if (options_.all) {
        line +=
            stored.parent ? fmt::format(", after #{}", stored.parent->value) : ", the beginning";
      }
      output_.text(fmt::format("{}\n{}\n\n", line, shown_text(stored.message.content)));
    }
    const std::vector<MessageId> others = other_ends(all, path);
    for (const MessageId end : others) {
      if (!options_.all && !options_.view)
        output_.remark(fmt::format("another branch ends at #{0}: --at {0}", end.value));
    }
    Json json = info_json(info);
    Json ends(Json::Array{});
    for (const MessageId end : others) ends.push_back(end.value);
    json.set("messages", messages_json(options_.all ? all : path));
    json.set("other_branches", std::move(ends));
    json.set("view", view ? view_json(*view) : Json());
    return output_.finish(json);
  }

  using MaybeView = std::optional<context::View>;
  Result<MaybeView> newest_view(const ConversationInfo& info,
                                const std::vector<StoredMessage>& path) {
    if (path.empty()) return MaybeView();
    return store_->view_for(info.id, path.back().id);
  }

  /// As it is sent: texts in place of messages, and what came after them.
  void show_view(const MaybeView& view, const std::vector<StoredMessage>& path) {
    const auto show_message = [&](const StoredMessage& stored, const std::string& text) {
      output_.text(fmt::format("{}\n{}\n\n", heading(stored), shown_text(text)));
    };
    if (!view) output_.remark("no compaction: the messages are sent as they are");
    for (const context::View::Item& item :
         view ? view->items : std::vector<context::View::Item>()) {
      const auto stored = std::ranges::find(path, item.last, &StoredMessage::id);
      if (stored == path.end()) continue;
      if (item.first != item.last) {
        output_.text(fmt::format("#{} to #{}\n{}\n\n", item.first.value, item.last.value,
                                 shown_text(item.summary.value_or(""))));
      } else {
        show_message(*stored, item.summary.value_or(stored->message.content));
      }
    }
    for (const StoredMessage& stored : path) {
      if (!view || stored.id > view->head) show_message(stored, stored.message.content);
    }
  }

  static Json view_json(const context::View& view) {
    Json items(Json::Array{});
    for (const context::View::Item& item : view.items) {
      Json entry;
      entry.set("first", item.first.value);
      entry.set("last", item.last.value);
      entry.set("text", item.summary ? Json(utf8_sanitized(*item.summary)) : Json());
      items.push_back(std::move(entry));
    }
    Json json;
    json.set("id", view.id.value);
    json.set("policy", utf8_sanitized(view.policy));
    json.set("head", view.head.value);
    json.set("created_ms", view.created_ms);
    json.set("items", std::move(items));
    return json;
  }

  /// The last messages of branches other than `path`.
  static std::vector<MessageId> other_ends(const std::vector<StoredMessage>& all,
                                           const std::vector<StoredMessage>& path) {
    std::map<int64_t, bool> is_end;
    for (const StoredMessage& stored : all) {
      is_end[stored.id.value] = true;
      if (stored.parent) is_end[stored.parent->value] = false;
    }
    if (!path.empty()) is_end[path.back().id.value] = false;
    std::vector<MessageId> ends;
    for (const auto& [id, end] : is_end) {
      if (end) ends.push_back({id});
    }
    return ends;
  }

  Result<void> search() {
    std::string query;
    for (size_t i = 1; i < options_.arguments.size(); ++i) query += options_.arguments[i] + " ";
    QUIRE_TRY(const auto hits, store_->search(kLocalOwner, query, options_.limit));
    Json list(Json::Array{});
    for (const context::SearchHit& hit : hits) {
      const std::string found =
          context::excerpt(hit.message.message.content, query, kExcerptCharacters);
      output_.text(fmt::format("{} {}: {}\n", hit.conversation_name, heading(hit.message), found));
      Json json = message_json(hit.message);
      json.set("conversation", hit.conversation_name);
      json.set("excerpt", found);
      list.push_back(std::move(json));
    }
    if (hits.empty()) output_.remark("nothing found");
    Json json;
    json.set("hits", std::move(list));
    return output_.finish(json);
  }

  Result<void> fork() {
    QUIRE_TRY(const ConversationInfo info, conversation(argument(0)));
    QUIRE_TRY_VOID(context::check_conversation_name(argument(1)));
    QUIRE_TRY(const ConversationInfo made,
              store_->fork(kLocalOwner, info.id, argument(1), place(info)));
    output_.remark(
        fmt::format("'{}' begins with {} messages of '{}'", made.name, made.messages, info.name));
    return output_.finish(info_json(made));
  }

  Result<void> export_one() {
    QUIRE_TRY(const ConversationInfo info, conversation(argument(0)));
    QUIRE_TRY(const std::vector<StoredMessage> path, store_->path(info.id, place(info)));
    if (options_.format == "markdown" && !options_.output.json) {
      output_.text(markdown(info, path));
      return output_.finish({});
    }
    QUIRE_TRY(const std::vector<StoredMessage> all, store_->all_messages(info.id));
    Json json = info_json(info);
    Json messages(Json::Array{});
    for (const StoredMessage& stored : path) messages.push_back(plain_message(stored));
    json.set("messages", std::move(messages));
    json.set("tree", messages_json(all));
    if (!options_.output.json) output_.text(json.dump(2) + "\n");
    return output_.finish(json);
  }

  static std::string markdown(const ConversationInfo& info,
                              const std::vector<StoredMessage>& path) {
    std::string text = fmt::format("# {}\n", info.name);
    for (const StoredMessage& stored : path) {
      text += fmt::format("\n## {}\n\n{}\n", stored.message.role, stored.message.content);
      if (!stored.message.fields.is_null()) {
        text += fmt::format("\n```json\n{}\n```\n", stored.message.fields.dump(2));
      }
    }
    return text;
  }

  Result<void> rm() {
    std::vector<ConversationInfo> doomed;
    for (size_t i = 0; i + 1 < options_.arguments.size(); ++i) {
      QUIRE_TRY(ConversationInfo info, conversation(argument(i)));
      doomed.push_back(std::move(info));
    }
    Json list(Json::Array{});
    for (const ConversationInfo& info : doomed) {
      QUIRE_TRY_VOID(store_->remove(info.id));
      output_.remark(fmt::format("'{}' is removed: {} messages", info.name, info.messages));
      list.push_back(info.name);
    }
    Json json;
    json.set("removed", std::move(list));
    return output_.finish(json);
  }

  const Environment& env_;
  const HistoryOptions& options_;
  Output& output_;
  std::unique_ptr<ConversationStore> store_;
};

Result<void> set_format(HistoryOptions& options, std::string_view option, std::string_view value) {
  if (value == "md") value = "markdown";
  if (value != "json" && value != "markdown") {
    return usage(fmt::format("{} wants json or markdown, not '{}'", option, one_line(value)));
  }
  options.format = value;
  return {};
}

Result<void> run_history(const Command& self, const Environment& env,
                         std::span<const std::string> args) {
  HistoryOptions options;
  OptionParser parser("quire history");
  parser.positional(options.arguments, kMostArguments);
  parser.add({{"--at"},
              "N",
              "show, fork, export: the branch up to message N, whatever branch it is on",
              store_int(options.at, 0, INT64_MAX)});
  parser.add({{"--all"}, "", "show: the messages of all branches", set(options.all)});
  parser.add({{"--view"},
              "",
              "show: what the model is sent: the messages, or what compaction left of them",
              set(options.view)});
  parser.add({{"--limit"},
              "N",
              "search: hits at most (default 20)",
              store_int(options.limit, 1, kMostHits)});
  parser.add({{"--format"},
              "FORMAT",
              "export: json (default; --messages reads it) or markdown",
              [&options](std::string_view option, std::string_view value) {
                return set_format(options, option, value);
              }});
  declare(parser, options.output);
  QUIRE_TRY(const bool helped, parse_or_help(self, env, parser, args));
  if (helped) return {};
  Output output(env, options.output);
  return History(env, options, output).execute();
}

}  // namespace

const Command kHistoryCommand = {
    .name = "history",
    .arguments =
        "ls | show NAME | search WORDS | fork NAME NEW | export NAME | rm NAME... [options]",
    .summary = "stored conversations",
    .example =
        "  quire chat model.gguf --conversation holidays\n"
        "  quire history ls\n"
        "  quire history search 缓存\n"
        "  quire history fork holidays holidays-in-winter --at 12\n"
        "  quire history export holidays --format markdown -o holidays.md\n",
    .run = run_history,
};

}  // namespace quire::cli
