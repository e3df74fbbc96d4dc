#include "slower/file_calls.h"

#include <unistd.h>

namespace lowtide::slower {
namespace {

class SystemFileCalls final : public FileCalls {
 public:
  ssize_t pread(int file, void* into, std::size_t bytes, off_t offset) override {
    return ::pread(file, into, bytes, offset);
  }
  ssize_t pwrite(int file, const void* data, std::size_t bytes, off_t offset) override {
    return ::pwrite(file, data, bytes, offset);
  }
};

}  // namespace

FileCalls& system_file_calls() {
  static SystemFileCalls calls;
  return calls;
}

}  // namespace lowtide::slower
