#include "base/machine_memory.h"

#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

namespace lowtide {
namespace {

/// Bytes of address space that this process uses; 0 if unknown.
Bytes address_space() {
  std::ifstream statistics("/proc/self/statm");
  Bytes pages = 0;
  statistics >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

/// A number alone in a file; nothing for "max" or a file that is not there.
std::optional<Bytes> number_in(const std::filesystem::path& file) {
  std::ifstream input(file);
  Bytes value = 0;
  return input >> value ? std::optional(value) : std::nullopt;
}

/// The number behind a key, in lines of "key: number kB" or "key number"; 0 without the key.
Bytes number_of(const std::filesystem::path& file, std::string_view key) {
  std::ifstream input(file);
  for (std::string line; std::getline(input, line);) {
    std::istringstream words(line);
    std::string name, unit;
    Bytes value = 0;
    words >> name >> value >> unit;
    if (name == key) return unit == "kB" ? value * 1024 : value;
  }
  return 0;
}

/// One control group of version 2 (memory.max) or 1 (memory.limit_in_bytes). Files that are read
/// again and again count as used, and are given up when memory is short.
std::optional<MachineMemory> group_memory(const std::filesystem::path& folder) {
  const bool is_new = std::filesystem::exists(folder / "memory.max");
  const auto limit = number_in(folder / (is_new ? "memory.max" : "memory.limit_in_bytes"));
  const auto used = number_in(folder / (is_new ? "memory.current" : "memory.usage_in_bytes"));
  if (!limit || !used) return std::nullopt;
  const Bytes files =
      number_of(folder / "memory.stat", is_new ? "inactive_file" : "total_inactive_file");
  return MachineMemory{*limit, std::max<Bytes>(0, *limit - std::max<Bytes>(0, *used - files))};
}

void tighten(std::optional<MachineMemory>& least, const std::filesystem::path& folder) {
  const std::optional<MachineMemory> memory = group_memory(folder);
  if (!memory) return;
  if (!least) least = memory;
  least->total = std::min(least->total, memory->total);
  least->free = std::min(least->free, memory->free);
}

}  // namespace

Bytes physical_memory() { return Bytes{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE); }

Bytes memory_and_swap() {
  struct sysinfo system{};
  if (::sysinfo(&system) != 0) return physical_memory();
  return static_cast<Bytes>(system.totalram + system.totalswap) * system.mem_unit;
}

Bytes addressable_memory() {
  struct rlimit limit{};
  const bool is_limited = ::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  if (!is_limited) return physical_memory();
  const Bytes left = static_cast<Bytes>(limit.rlim_cur) - address_space();
  return std::clamp<Bytes>(left / 2, 0, physical_memory());
}

std::optional<MachineMemory> control_group_memory(const std::filesystem::path& root,
                                                  std::string_view membership) {
  std::optional<MachineMemory> least;
  std::istringstream lines{std::string(membership)};
  for (std::string line; std::getline(lines, line);) {  // "0::/path" or "9:memory:/path"
    const std::size_t path = line.find(":/");
    const bool is_old = line.find(":memory:") != std::string::npos;
    if (path == std::string::npos || !(is_old || line.starts_with("0::"))) continue;
    const std::filesystem::path top = is_old ? root / "memory" : root;
    std::filesystem::path group = line.substr(path + 2);
    while (true) {
      tighten(least, top / group);
      if (group.empty()) break;
      group = group.parent_path();
    }
  }
  return least;
}

MachineMemory machine_memory() {
  MachineMemory memory{physical_memory(), number_of("/proc/meminfo", "MemAvailable:") +
                                              number_of("/proc/meminfo", "SwapFree:")};
  std::ifstream membership("/proc/self/cgroup");
  const std::string text{std::istreambuf_iterator<char>(membership), {}};
  if (const auto group = control_group_memory("/sys/fs/cgroup", text)) {
    memory.total = std::min(memory.total, group->total);
    memory.free = std::min(memory.free, group->free);
  }
  return memory;
}

}  // namespace lowtide
