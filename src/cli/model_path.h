// model_path.h: which file or folder the MODEL argument means.
//
// A path that exists wins; else a bare name is looked up in $QUIRE_HOME/models as NAME, NAME.gguf,
// or the first part of a split set NAME-00001-of-0000N.gguf.
#pragma once
#include <string>
#include <vector>

#include "cli/environment.h"

namespace quire::cli {

/// kNotFound says where it was looked for.
Result<std::string> resolve_model(const Environment& env, const std::string& model);

/// The one model of a command that takes one; kUsage if none was given.
Result<std::string> only_model(const Environment& env, const std::vector<std::string>& models,
                               std::string_view command);

}  // namespace quire::cli
