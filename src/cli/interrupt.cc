#include "cli/interrupt.h"

#include <unistd.h>
#include <csignal>

#include <atomic>

namespace quire::cli {
namespace {

std::atomic<bool> interrupt_flag{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler must not lock");

void on_signal(int) {
  if (interrupt_flag.exchange(true)) ::_exit(130);
}

}  // namespace

void install_interrupt_handler() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  ::sigemptyset(&action.sa_mask);
  // Without SA_RESTART, so that a read from the terminal returns and the flag is seen.
  action.sa_flags = 0;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

bool interrupted() {
  return interrupt_flag.load(std::memory_order_relaxed);
}

void clear_interrupt() {
  interrupt_flag.store(false);
}

}  // namespace quire::cli
