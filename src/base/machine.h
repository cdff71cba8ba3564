// machine.h: what this process may use of the machine it runs on.
//
// Reads /proc and /sys through the FileSystem seam; a file that is missing or unreadable means "no
// limit known". Results are a snapshot. Any thread.
#pragma once
#include <cstdint>
#include <string>

#include "base/file_system.h"

namespace quire {

struct Machine {
  /// Physical cores inside the affinity mask, at most the cgroup's CPU quota; both hardware threads
  /// where only one core is visible. At least 1.
  int32_t default_threads = 1;
  /// Hardware threads inside the affinity mask, at most the quota. At least 1: more threads than
  /// this take turns.
  int32_t processors = 1;
  /// min(MemAvailable, what the cgroup still allows).
  int64_t available_memory_bytes = 0;
  /// "Intel(R) Xeon(R) Processor"; "unknown processor" if the system does not say.
  std::string cpu_name;
};

Machine inspect_machine(FileSystem& files);

/// Time of all processors since the machine started, in ticks of its clock.
struct ProcessorTime {
  int64_t total = 0;
  int64_t stolen = 0;  // that the hypervisor gave to somebody else // proc(5), "steal"
};
/// Zeroes if unknown.
ProcessorTime processor_time(FileSystem& files);

/// Resident set of this process, 0 if unknown.
int64_t resident_bytes(FileSystem& files);

}  // namespace quire
