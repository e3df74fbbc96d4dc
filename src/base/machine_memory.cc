#include "base/machine_memory.h"

#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace lowtide {
namespace {

/// Bytes of address space that this process uses; 0 if unknown.
Bytes address_space() {
  std::ifstream statistics("/proc/self/statm");
  Bytes pages = 0;
  statistics >> pages;
  return pages * sysconf(_SC_PAGESIZE);
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

}  // namespace lowtide
