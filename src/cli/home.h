// home.h: QUIRE_HOME, where conversations and documents lie: for this user only.
//
// Creates the folder where it is missing and closes it to others. Use from one thread.
#pragma once
#include <memory>
#include <string>

#include "cli/environment.h"
#include "cli/output.h"
#include "context/conversation_store.h"

namespace quire::cli {

/// The folder, made if it was missing, with mode 0700; says so on stderr if it had been open.
Result<std::string> private_home(const Environment& env, Output& output);

/// Where conversations are kept.
std::string conversations_path(const Environment& env);

/// Where `serve` keeps its clients' conversations unless told otherwise.
std::string server_conversations_path(const Environment& env);

/// The store of conversations, made if there was none.
Result<std::unique_ptr<context::ConversationStore>> open_conversations(const Environment& env,
                                                                       Output& output);

/// "2026-03-01 09:30" in local time.
std::string shown_time(int64_t ms);

}  // namespace quire::cli
