// batch_run.h: `run --batch FILE.jsonl`: every line is answered, many at once.
//
// Prints one JSON line an answer, in the order of the file, as soon as it and those before it are
// done; with --json one document. What lines have in common is read once. Called from one thread.
#pragma once
#include "base/result.h"
#include "cli/environment.h"
#include "cli/output.h"
#include "cli/run_options.h"

namespace quire::cli {

/// kUsage before anything is loaded if a line is bad; the error of the first line that could not be
/// answered, after all others were.
Result<void> run_batch(const Environment& env, const RunOptions& options, Output& output);

}  // namespace quire::cli
