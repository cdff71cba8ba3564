// answer_schema.h: the schema that `run --json-schema` holds answers to.
//
// Plain function; any thread.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/environment.h"
#include "engine/model.h"
#include "engine/token_constraint.h"

namespace quire::cli {

/// For answers to `prompt`, which may have opened reasoning. `model` must outlive the result.
Result<std::unique_ptr<engine::TokenConstraint>> read_answer_schema(const Environment& env,
                                                                    const std::string& file,
                                                                    const engine::Model& model,
                                                                    std::string_view prompt);

}  // namespace quire::cli
