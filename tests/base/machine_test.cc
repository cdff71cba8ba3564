#include "base/machine.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <map>

namespace quire {
namespace {

/// Only the files that a test puts there.
class FakeSystem final : public FileSystem {
 public:
  std::map<std::string, std::string> contents;

  Result<std::unique_ptr<MappedFile>> map(const std::string& path) override { return none(path); }
  Result<std::string> read(const std::string& path, uint64_t) override {
    const auto found = contents.find(path);
    if (found == contents.end()) return none(path);
    return found->second;
  }
  Result<void> write_atomically(const std::string& path, std::string_view) override {
    return none(path);
  }
  bool is_file(const std::string& path) override { return contents.contains(path); }
  bool is_directory(const std::string&) override { return false; }
  Result<std::vector<std::string>> list(const std::string& path) override { return none(path); }

 private:
  static Error none(const std::string& path) { return {ErrorCode::kNotFound, path}; }
};

constexpr int64_t kMiB = int64_t{1} << 20;

int num_allowed_cpus() {
  cpu_set_t mask;
  return ::sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : 1;
}

TEST(Machine, KnowsNoLimitWhereNothingCanBeRead) {
  FakeSystem system;
  const Machine machine = inspect_machine(system);
  EXPECT_EQ(machine.default_threads, num_allowed_cpus());
  EXPECT_GT(machine.available_memory_bytes, 0);
  EXPECT_EQ(resident_bytes(system), 0);
}

TEST(Machine, ReadsHowMuchTimeWasStolen) {
  FakeSystem system;
  EXPECT_EQ(processor_time(system).total, 0);
  system.contents["/proc/stat"] = "cpu  100 0 20 300 4 5 6 7 50 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
  EXPECT_EQ(processor_time(system).total, 442);
  EXPECT_EQ(processor_time(system).stolen, 7);
  system.contents["/proc/stat"] = "intr 1 2 3\n";
  EXPECT_EQ(processor_time(system).total, 0);
}

TEST(Machine, TakesTheSmallerOfMachineAndCgroupMemory) {
  FakeSystem system;
  system.contents["/proc/meminfo"] = "MemTotal: 9999999 kB\nMemAvailable:    2048 kB\n";
  EXPECT_EQ(inspect_machine(system).available_memory_bytes, 2 * kMiB);
  system.contents["/proc/self/cgroup"] = "0::/app/worker\n";
  system.contents["/sys/fs/cgroup/app/worker/memory.max"] = "max\n";
  system.contents["/sys/fs/cgroup/app/memory.max"] = "3145728\n";
  system.contents["/sys/fs/cgroup/app/memory.current"] = "2621440\n";
  EXPECT_EQ(inspect_machine(system).available_memory_bytes, kMiB / 2);
  system.contents["/sys/fs/cgroup/app/memory.stat"] = "anon 7\ninactive_file 262144\n";
  EXPECT_EQ(inspect_machine(system).available_memory_bytes, kMiB / 2 + 262144);
}

TEST(Machine, ReadsTheFirstVersionOfCgroupsToo) {
  FakeSystem system;
  system.contents["/proc/meminfo"] = "MemAvailable: 1048576 kB\n";
  system.contents["/proc/self/cgroup"] = "5:cpu,cpuacct:/\n4:memory:/box\n";
  system.contents["/sys/fs/cgroup/memory/memory.limit_in_bytes"] = "9223372036854771712\n";
  system.contents["/sys/fs/cgroup/memory/memory.usage_in_bytes"] = "1\n";
  EXPECT_EQ(inspect_machine(system).available_memory_bytes, 1024 * kMiB);
  system.contents["/sys/fs/cgroup/memory/box/memory.limit_in_bytes"] = "2097152\n";
  system.contents["/sys/fs/cgroup/memory/box/memory.usage_in_bytes"] = "1048576\n";
  EXPECT_EQ(inspect_machine(system).available_memory_bytes, kMiB);
  system.contents["/sys/fs/cgroup/cpu/cpu.cfs_quota_us"] = "150000\n";
  system.contents["/sys/fs/cgroup/cpu/cpu.cfs_period_us"] = "100000\n";
  EXPECT_EQ(inspect_machine(system).default_threads, 1);
}

TEST(Machine, KeepsToTheCpuQuota) {
  FakeSystem system;
  system.contents["/proc/self/cgroup"] = "0::/\n";
  system.contents["/sys/fs/cgroup/cpu.max"] = "100000 100000\n";
  EXPECT_EQ(inspect_machine(system).default_threads, 1);
  system.contents["/sys/fs/cgroup/cpu.max"] = "max 100000\n";
  EXPECT_EQ(inspect_machine(system).default_threads, num_allowed_cpus());
}

TEST(Machine, KnowsHowManyThreadsCanRunAtOnce) {
  FakeSystem system;
  EXPECT_EQ(inspect_machine(system).processors, num_allowed_cpus());
  system.contents["/proc/self/cgroup"] = "0::/\n";
  system.contents["/sys/fs/cgroup/cpu.max"] = "150000 100000\n";
  EXPECT_EQ(inspect_machine(system).processors, 1);
  system.contents["/sys/fs/cgroup/cpu.max"] = "10000 100000\n";
  EXPECT_EQ(inspect_machine(system).processors, 1);
}

TEST(Machine, UsesBothThreadsOfItsOnlyCore) {
  FakeSystem system;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    system.contents["/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                    "/topology/thread_siblings_list"] = "0-1\n";
  }
  EXPECT_EQ(inspect_machine(system).default_threads, std::min(num_allowed_cpus(), 2));
}

TEST(Machine, ReadsItsNameAndResidentSet) {
  FakeSystem system;
  system.contents["/proc/cpuinfo"] = "processor\t: 0\nmodel name\t: A Fast One\n";
  system.contents["/proc/self/status"] = "Name:\tx\nVmRSS:\t    12 kB\n";
  EXPECT_EQ(inspect_machine(system).cpu_name, "A Fast One");
  EXPECT_EQ(resident_bytes(system), 12 * 1024);
}

}  // namespace
}  // namespace quire
