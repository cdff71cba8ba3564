// check.h: QUIRE_CHECK aborts on a bug, with the place and the reason.
//
// For conditions that only a mistake in Quire can break; never for bad input. Always on, release
// builds included. Safe from any thread.
#pragma once

namespace quire {

/// Prints to stderr and aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* condition, const char* why);

/// Prints both values as well: `lhs op rhs` did not hold.
[[noreturn]] void check_op_failed(const char* file, int line, const char* expression, long long lhs,
                                  long long rhs);

}  // namespace quire

#define QUIRE_CHECK(condition, why)                                              \
  do {                                                                           \
    if (!(condition)) ::quire::check_failed(__FILE__, __LINE__, #condition, why); \
  } while (false)

#define QUIRE_CHECK_OP(a, op, b)                                                             \
  do {                                                                                       \
    const auto quire_a = (a);                                                                \
    const auto quire_b = (b);                                                                \
    if (!(quire_a op quire_b)) {                                                             \
      ::quire::check_op_failed(__FILE__, __LINE__, #a " " #op " " #b,                        \
                               static_cast<long long>(quire_a), static_cast<long long>(quire_b)); \
    }                                                                                        \
  } while (false)
#define QUIRE_CHECK_EQ(a, b) QUIRE_CHECK_OP(a, ==, b)
#define QUIRE_CHECK_LE(a, b) QUIRE_CHECK_OP(a, <=, b)
#define QUIRE_CHECK_LT(a, b) QUIRE_CHECK_OP(a, <, b)
