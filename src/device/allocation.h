#pragma once

#include <cstddef>

#include "base/bytes.h"
#include "device/allocation_counter.h"

namespace lowtide::device {

/// Gives memory to the framework's allocator. Addresses are multiples of 64.
class MemorySource {
 public:
  using Release = void (*)(void* data);
  /// Memory and how it is given back. `release` may be called long after the source is gone, from
  /// any thread.
  struct Grant {
    void* data;
    Release release;
  };

  virtual ~MemorySource() = default;
  /// `bytes` > 0.
  virtual Grant allocate(std::size_t bytes) = 0;
};

/// While it lives, whatever this thread asks of the framework's CPU allocator comes from `source`.
/// Other threads are served by the system as ever. Nests.
class Serving {
 public:
  explicit Serving(MemorySource& source);
  ~Serving();
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;

 private:
  MemorySource* previous_;
};

/// While it lives, what the worker threads of parallel kernels ask for comes from `source`: the
/// order of their requests is not fixed, so no plan can serve them. One at a time.
class ServingWorkers {
 public:
  explicit ServingWorkers(MemorySource& source);
  ~ServingWorkers();
  ServingWorkers(const ServingWorkers&) = delete;
  ServingWorkers& operator=(const ServingWorkers&) = delete;
};

/// Declares how the addresses of a range are released, for those callers of the framework that
/// keep nothing but the address (oneDNN's scratch).
class OwnedRange {
 public:
  OwnedRange(const void* data, Bytes bytes, MemorySource::Release release);
  ~OwnedRange();
  OwnedRange(const OwnedRange&) = delete;
  OwnedRange& operator=(const OwnedRange&) = delete;

 private:
  const std::byte* begin_;
};

struct AllocationCounters {
  AllocationCounter taken;     ///< all that the system gives: blocks, and what sources take, too
  AllocationCounter unserved;  ///< what no source serves: what the caller's own code takes
};

/// From the first call on, the framework's allocations are counted.
const AllocationCounters& count_allocations();
/// The peaks of the counters are from now on those of what follows. Counts from now on if it did not.
void reset_allocation_peaks();

/// The Release of memory that lives as long as its block.
void keep(void* data);

/// Memory from the allocator that the framework had before: what serves where no source does.
MemorySource::Grant system_memory(std::size_t bytes);

}  // namespace lowtide::device
