#pragma once

#include <filesystem>

#include "base/bytes.h"
#include "slower/buffers.h"
#include "slower/file_calls.h"
#include "slower/lanes.h"

namespace lowtide::slower {

struct FileOptions {
  /// What one system call moves at most: a power of two from 1 MiB to 8 MiB.
  Bytes request_bytes = Bytes{4} << 20;
  int threads_per_lane = 4;                 ///< requests under way in each direction; from 1 to 16
  FileCalls* calls = &system_file_calls();  ///< must outlive the store
  /// Shared with other stores, in pieces of `request_bytes` at least. Null: buffers of its own, one
  /// for each thread.
  std::shared_ptr<Buffers> buffers = nullptr;
};

/// Slower memory in a file on a disk.
///
/// The file has no name and all its room from the start. Bytes pass the page cache by (O_DIRECT),
/// so that the kernel does not keep in memory what was moved out of it; where the file system does
/// not allow that, they are flushed and dropped from the page cache after each request.
///
/// Quickest are offsets, sizes and addresses in memory at multiples of 4096. Others are copied
/// through a buffer, and a page of the file that two values share is read before it is written.
///
/// Every request keeps a checksum in memory (16 bytes for some MiB), which is compared when the
/// bytes come back. wait() throws Error for bytes that are not those written, for an error of the
/// disk, a full disk, and a file that ends too soon.
///
/// A few threads with pread and pwrite keep a disk busy: a request of MiBs takes it a millisecond,
/// and the call a few microseconds. io_uring would save those, and is forbidden in many containers.
class FileStore final : public LaneStore {
 public:
  /// Reserves the file in `folder`, and `buffer_bytes()` of host memory. Throws as reserve_file(),
  /// and InputError for options out of range.
  FileStore(const std::filesystem::path& folder, Bytes bytes, const FileOptions& options = {});
};

}  // namespace lowtide::slower
