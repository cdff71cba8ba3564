// interrupt.h: Ctrl-C asks once, kills the second time.
//
// The signal handler can only set a flag, so this is the program's one mutable global. Work polls
// interrupted() and stops at a good place. Install from one thread; interrupted() from any.
#pragma once

namespace quire::cli {

/// From now on SIGINT and SIGTERM set the flag; a second one before clear_interrupt() ends the
/// process at once with status 130.
void install_interrupt_handler();

bool interrupted();

/// Forgets an interrupt that has been dealt with.
void clear_interrupt();

}  // namespace quire::cli
