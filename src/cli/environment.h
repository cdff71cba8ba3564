// environment.h: what a command finds around it: files, settings, streams.
//
// Collected once in main, so that no command reads a global. Plain.
#pragma once
#include <cstdio>
#include <string>

#include "base/file_system.h"

namespace quire::cli {

struct Environment {
  FileSystem& files;
  std::string home;           // QUIRE_HOME, or its default
  std::string isa;            // QUIRE_ISA, or empty
  std::string api_key;        // QUIRE_API_KEY, or empty
  bool colour_wanted = true;  // NO_COLOR is not set
  std::FILE* in = stdin;
  std::FILE* out = stdout;
  std::FILE* err = stderr;
};

/// The process's own.
Environment process_environment();

/// Everything that can be read from `env.in`, whatever the bytes. kInterrupted after Ctrl-C.
Result<std::string> read_all(const Environment& env);

}  // namespace quire::cli
