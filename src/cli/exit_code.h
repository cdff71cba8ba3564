// exit_code.h: what the process returns for each kind of failure: the one table.
//
// Pure.
#pragma once
#include "base/result.h"

namespace quire::cli {

constexpr int exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUsage:
      return 2;
    case ErrorCode::kNotFound:
    case ErrorCode::kBadFile:
    case ErrorCode::kUnsupported:
    case ErrorCode::kIo:
    case ErrorCode::kBusy:
      return 3;
    case ErrorCode::kDoesNotFit:
      return 4;
    case ErrorCode::kCheckFailed:
      return 5;
    case ErrorCode::kInterrupted:
      return 130;
  }
  return 1;
}

}  // namespace quire::cli
