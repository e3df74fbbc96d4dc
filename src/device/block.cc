#include "device/block.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace lowtide::device {
namespace {

[[noreturn]] void refused(Bytes bytes) {
  throw Error(fmt::format("the system refuses a block of {}: {}; take a smaller budget, or lift "
                          "the process's own limit (ulimit -v)",
                          format_bytes(bytes), std::strerror(errno)));
}

[[noreturn]] void too_large(Bytes bytes, Bytes most) {
  throw Error(fmt::format("an op needs {} at once, and this process can take {} at most; choose "
                          "smaller sizes, or lift the process's own limit (ulimit -v)",
                          format_bytes(bytes), format_bytes(most)));
}

}  // namespace

Block::Block(Bytes bytes, Access access)
    : bytes_(align_up(std::max<Bytes>(bytes, 1), sysconf(_SC_PAGESIZE))) {
  const int protection = access == Access::whole ? PROT_READ | PROT_WRITE : PROT_NONE;
  void* data = mmap(nullptr, static_cast<std::size_t>(bytes_), protection,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) refused(bytes);
  data_ = static_cast<std::byte*>(data);
  open_ = access == Access::whole ? bytes_ : 0;
  // Large pages make the first access and the address translation cheaper; a system without them
  // uses small pages.
  madvise(data_, static_cast<std::size_t>(bytes_), MADV_HUGEPAGE);
}

Block::~Block() { munmap(data_, static_cast<std::size_t>(bytes_)); }

void Block::open_to(Bytes bytes) {
  if (bytes <= open_) return;
  const Bytes target = align_up(bytes, sysconf(_SC_PAGESIZE));
  if (target > bytes_) too_large(bytes, bytes_);
  if (mprotect(data_ + open_, static_cast<std::size_t>(target - open_), PROT_READ | PROT_WRITE)) {
    refused(bytes);
  }
  open_ = target;
}

}  // namespace lowtide::device
