#include "base/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace quire {
namespace {

constexpr uint64_t kMaxProcFile = 1 << 20;

std::string read_or_empty(FileSystem& files, const std::string& path) {
  auto text = files.read(path, kMaxProcFile);
  return text.ok() ? *std::move(text) : std::string();
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

/// The number that `text` starts with, after blanks.
std::optional<int64_t> leading_number(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  int64_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc()) return std::nullopt;
  return number;
}

std::optional<int64_t> number_in(FileSystem& files, const std::string& path) {
  return leading_number(read_or_empty(files, path));
}

/// The number after "NAME" at the start of a line, as /proc and memory.stat print them.
std::optional<int64_t> field(std::string_view text, std::string_view name) {
  for (const std::string_view line : split(text, '\n')) {
    if (line.starts_with(name)) return leading_number(line.substr(name.size()));
  }
  return std::nullopt;
}

/// Where a cgroup's files may lie: its own folder, then its ancestors up to the root, which is all
/// that a container sees of its own.
struct CgroupPaths {
  std::vector<std::string> v2;
  std::vector<std::string> v1_memory;
  std::vector<std::string> v1_cpu;
};

std::vector<std::string> with_ancestors(const std::string& root, std::string_view path) {
  std::vector<std::string> folders;
  std::string relative(path);
  while (relative.size() > 1) {
    folders.push_back(root + relative);
    relative.resize(relative.rfind('/') == std::string::npos ? 0 : relative.rfind('/'));
  }
  folders.push_back(root);
  return folders;
}

bool lists(std::string_view names, std::string_view wanted) {
  const auto parts = split(names, ',');
  return std::ranges::find(parts, wanted) != parts.end();
}

/// /proc/self/cgroup has lines ID:CONTROLLERS:PATH; version 2's are "0::PATH".
CgroupPaths find_cgroups(FileSystem& files) {
  CgroupPaths paths;
  const std::string text = read_or_empty(files, "/proc/self/cgroup");
  for (const std::string_view line : split(text, '\n')) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first == std::string_view::npos ? first : first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string_view path = line.substr(second + 1);
    if (controllers.empty()) paths.v2 = with_ancestors("/sys/fs/cgroup", path);
    if (lists(controllers, "memory")) {
      paths.v1_memory = with_ancestors("/sys/fs/cgroup/memory", path);
    }
    if (lists(controllers, "cpu")) paths.v1_cpu = with_ancestors("/sys/fs/cgroup/cpu", path);
  }
  return paths;
}

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

/// What a limit leaves. The cache of files counts as used, but the system gives the inactive part
/// of it back on demand.
std::optional<int64_t> memory_left(std::optional<int64_t> limit, std::optional<int64_t> used,
                                   std::optional<int64_t> reclaimable) {
  // Version 1 says "no limit" with a number near 2^63.
  if (!limit || *limit <= 0 || *limit >= kUnlimited / 2 || !used) return std::nullopt;
  return std::max<int64_t>(*limit - *used + reclaimable.value_or(0), 0);
}

int64_t cgroup_memory_left(FileSystem& files, const CgroupPaths& paths) {
  int64_t left = kUnlimited;
  for (const std::string& folder : paths.v2) {
    const auto here = memory_left(
        number_in(files, folder + "/memory.max"), number_in(files, folder + "/memory.current"),
        field(read_or_empty(files, folder + "/memory.stat"), "inactive_file "));
    left = std::min(left, here.value_or(kUnlimited));
  }
  for (const std::string& folder : paths.v1_memory) {
    const auto here =
        memory_left(number_in(files, folder + "/memory.limit_in_bytes"),
                    number_in(files, folder + "/memory.usage_in_bytes"),
                    field(read_or_empty(files, folder + "/memory.stat"), "total_inactive_file "));
    left = std::min(left, here.value_or(kUnlimited));
  }
  return left;
}

int64_t available_memory(FileSystem& files, const CgroupPaths& paths) {
  const auto kib = field(read_or_empty(files, "/proc/meminfo"), "MemAvailable:");
  const int64_t machine = kib ? *kib * 1024
                              : static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) *
                                    static_cast<int64_t>(::sysconf(_SC_PAGESIZE));
  return std::min(machine, cgroup_memory_left(files, paths));
}

/// Whole processors that a quota of `quota` microseconds every `period` pays for.
std::optional<int64_t> quota_cpus(std::optional<int64_t> quota, std::optional<int64_t> period) {
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return std::max<int64_t>(*quota / *period, 1);
}

int64_t cgroup_cpus(FileSystem& files, const CgroupPaths& paths) {
  int64_t cpus = kUnlimited;
  for (const std::string& folder : paths.v2) {
    // "QUOTA PERIOD" or "max PERIOD".
    const std::string text = read_or_empty(files, folder + "/cpu.max");
    const size_t blank = std::min(text.find(' '), text.size());
    const auto here = quota_cpus(leading_number(text), leading_number(text.substr(blank)));
    cpus = std::min(cpus, here.value_or(kUnlimited));
  }
  for (const std::string& folder : paths.v1_cpu) {
    const auto here = quota_cpus(number_in(files, folder + "/cpu.cfs_quota_us"),
                                 number_in(files, folder + "/cpu.cfs_period_us"));
    cpus = std::min(cpus, here.value_or(kUnlimited));
  }
  return cpus;
}

/// Processors that the scheduler may put this process on.
std::vector<int> allowed_cpus() {
  // The kernel refuses a mask smaller than its own, so grow until it fits.
  for (int capacity = 1024; capacity <= 1 << 20; capacity *= 2) {
    cpu_set_t* mask = CPU_ALLOC(static_cast<size_t>(capacity));
    if (mask == nullptr) break;
    const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(capacity));
    CPU_ZERO_S(bytes, mask);
    const bool known = ::sched_getaffinity(0, bytes, mask) == 0;
    std::vector<int> cpus;
    for (int cpu = 0; known && cpu < capacity; ++cpu) {
      if (CPU_ISSET_S(static_cast<size_t>(cpu), bytes, mask)) cpus.push_back(cpu);
    }
    CPU_FREE(mask);
    if (known) return cpus;
  }
  return {0};
}

/// Each physical core once. Where the topology cannot be read, every processor is a core.
int64_t physical_cores(FileSystem& files, const std::vector<int>& cpus) {
  std::set<std::string> cores;
  for (const int cpu : cpus) {
    const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    const std::string siblings = read_or_empty(files, folder + "thread_siblings_list");
    cores.insert(siblings.empty() ? "cpu " + std::to_string(cpu) : siblings);
  }
  return static_cast<int64_t>(cores.size());
}

std::string cpu_name(FileSystem& files) {
  const std::string text = read_or_empty(files, "/proc/cpuinfo");
  for (const std::string_view line : split(text, '\n')) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string_view::npos) {
      return std::string(line.substr(colon + 2));
    }
  }
  return "unknown processor";
}

}  // namespace

Machine inspect_machine(FileSystem& files) {
  const CgroupPaths cgroups = find_cgroups(files);
  const std::vector<int> cpus = allowed_cpus();
  int64_t threads = physical_cores(files, cpus);
  // One core's two hardware threads are worth using; on more cores the second ones rarely are.
  if (threads == 1) threads = std::min<int64_t>(static_cast<int64_t>(cpus.size()), 2);
  const int64_t quota = cgroup_cpus(files, cgroups);
  const int64_t processors = std::min(static_cast<int64_t>(cpus.size()), quota);
  threads = std::min(threads, quota);
  return {.default_threads = static_cast<int32_t>(std::max<int64_t>(threads, 1)),
          .processors = static_cast<int32_t>(std::max<int64_t>(processors, 1)),
          .available_memory_bytes = available_memory(files, cgroups),
          .cpu_name = cpu_name(files)};
}

ProcessorTime processor_time(FileSystem& files) {
  const std::string text = read_or_empty(files, "/proc/stat");
  const std::string_view line = split(text, '\n').empty() ? "" : split(text, '\n').front();
  if (!line.starts_with("cpu ")) return {};
  constexpr size_t kSteal = 7;  // user nice system idle iowait irq softirq steal guest guest_nice
  ProcessorTime time;
  size_t index = 0;
  for (const std::string_view part : split(line.substr(4), ' ')) {
    const auto ticks = leading_number(part);
    if (part.empty() || !ticks) continue;
    if (index == kSteal) time.stolen = *ticks;
    if (index <= kSteal) time.total += *ticks;  // the guests' time is part of the others
    ++index;
  }
  return time;
}

int64_t resident_bytes(FileSystem& files) {
  const auto kib = field(read_or_empty(files, "/proc/self/status"), "VmRSS:");
  return kib ? *kib * 1024 : 0;
}

}  // namespace quire
