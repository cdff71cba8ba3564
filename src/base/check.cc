#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace quire {

void check_failed(const char* file, int line, const char* condition, const char* why) {
  std::fprintf(stderr, "quire: bug at %s:%d: %s does not hold: %s\n", file, line, condition, why);
  std::abort();
}

void check_op_failed(const char* file, int line, const char* expression, long long lhs,
                     long long rhs) {
  std::fprintf(stderr, "quire: bug at %s:%d: %s does not hold: %lld against %lld\n", file, line,
               expression, lhs, rhs);
  std::abort();
}

}  // namespace quire
