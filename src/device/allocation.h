#pragma once

#include <cstddef>

#include "base/bytes.h"
#include "device/allocation_counter.h"

namespace lowtide::device {

/// Gives memory to the framework's allocator. Addresses are multiples of the device's alignment.
class MemorySource {
 public:
  using Release = void (*)(void* data);
  /// Memory and the function that releases it. `release` may be called from any thread, also long
  /// after the source is gone.
  struct Grant {
    void* data;
    Release release;
  };

  virtual ~MemorySource() = default;
  /// `bytes` > 0.
  virtual Grant allocate(std::size_t bytes) = 0;
};

/// While it lives, `source` serves all requests of this thread to the framework's CPU allocator.
/// The system still serves other threads. May be nested.
class Serving {
 public:
  explicit Serving(MemorySource& source);
  ~Serving();
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;

 private:
  MemorySource* previous_;
};

/// While it lives, `source` serves the worker threads of parallel kernels: the order of their
/// requests is not fixed, so no plan can serve them. At most one exists at a time.
class ServingWorkers {
 public:
  explicit ServingWorkers(MemorySource& source);
  ~ServingWorkers();
  ServingWorkers(const ServingWorkers&) = delete;
  ServingWorkers& operator=(const ServingWorkers&) = delete;
};

/// Declares how to release addresses of a range, for callers of the framework that keep only the
/// address (oneDNN's scratch).
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
  AllocationCounter taken;     ///< all memory from the system, including blocks and sources
  AllocationCounter unserved;  ///< requests without a source: those of the caller's own code
};

/// From the first call on, the framework's allocations are counted.
const AllocationCounters& count_allocations();
/// Restarts the peaks of the counters from now on. Starts the count if it was off.
void reset_allocation_peaks();

/// The Release of memory that lives as long as its block.
void keep(void* data);

/// The framework's previous allocator, which serves requests without a source.
MemorySource& system_source();

}  // namespace lowtide::device
