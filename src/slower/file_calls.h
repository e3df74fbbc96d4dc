#pragma once

#include <sys/types.h>

#include <cstddef>

namespace lowtide::slower {

/// The system calls by which a file store moves bytes, with their results and errno. Tests put
/// faults in their place. Called by several threads at once.
class FileCalls {
 public:
  virtual ~FileCalls() = default;
  virtual ssize_t pread(int file, void* into, std::size_t bytes, off_t offset) = 0;
  virtual ssize_t pwrite(int file, const void* data, std::size_t bytes, off_t offset) = 0;
};

/// Those of the system. Lives as long as the process.
FileCalls& system_file_calls();

}  // namespace lowtide::slower
