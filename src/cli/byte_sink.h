// byte_sink.h: a file that is written piece by piece and appears only when it is complete.
//
// For results too large to hold in memory. Until commit() the bytes lie in a temporary file beside
// the target, which the destructor removes. Use from one thread.
#pragma once
#include <cstddef>
#include <cstdio>
#include <span>
#include <string>

#include "base/result.h"

namespace quire::cli {

class ByteSink {
 public:
  static Result<ByteSink> create(const std::string& path);
  ByteSink(ByteSink&& other) noexcept;
  ByteSink& operator=(ByteSink&&) = delete;
  ~ByteSink();

  Result<void> write(std::span<const std::byte> bytes);
  /// The file is whole: gives it its name.
  Result<void> commit();

 private:
  ByteSink(std::FILE* stream, std::string temporary, std::string path);
  Error failed() const;

  std::FILE* stream_;
  std::string temporary_;
  std::string path_;
};

}  // namespace quire::cli
