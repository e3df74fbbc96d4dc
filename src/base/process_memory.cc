#include "base/process_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

namespace lowtide {

Bytes resident_set_bytes() {
  Bytes total_pages = 0, resident_pages = 0;
  std::ifstream("/proc/self/statm") >> total_pages >> resident_pages;
  return resident_pages * ::sysconf(_SC_PAGESIZE);
}

Bytes peak_resident_set_bytes() {
  struct rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return Bytes{usage.ru_maxrss} * 1024;
}

}  // namespace lowtide
