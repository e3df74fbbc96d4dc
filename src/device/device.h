#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Device.h>

#include <cstddef>
#include <memory>
#include <string>

#include "device/allocation.h"
#include "device/work_timer.h"

namespace lowtide::device {

struct DeviceMemory {
  Bytes total = 0;
  Bytes free = 0;  ///< for this process
};

/// As an allocator of LibTorch tells it; what that keeps for later requests is free.
DeviceMemory memory_told_by(c10::DeviceAllocator& allocator, c10::DeviceIndex index);

/// The interface of a device for the executor and the profiler: memory, the requests of ops, a
/// generator, synchronization. A new kind implements it and calls add_device().
class ComputeDevice {
 public:
  virtual ~ComputeDevice() = default;

  /// "AMD EPYC (AVX2), 2 threads, LibTorch 2.13.0": the device of a profile.
  virtual std::string name() const = 0;
  virtual c10::Device torch_device() const = 0;
  /// Whether the host may read and write the device's memory at its addresses.
  virtual bool is_host_memory() const = 0;
  /// The framework's own allocator gives addresses at multiples of it, a power of two. Kernels
  /// choose code by the alignment of addresses, so planned ones must be multiples of it too.
  virtual Bytes alignment() const = 0;

  /// One block of zero-filled memory at a multiple of alignment(). Throws Error when allocation
  /// fails.
  virtual std::shared_ptr<std::byte> allocate_block(Bytes bytes) const = 0;
  /// The same from the framework's own allocator, so that its memory counters include it. The
  /// content is undefined.
  virtual std::shared_ptr<std::byte> allocate_scratch(Bytes bytes) const = 0;
  /// The framework's own allocator, whatever serves this thread.
  virtual MemorySource& system() const = 0;
  /// While the result lives, `source` serves the requests of this thread's ops to the framework's
  /// allocator; `unordered` serves requests without a fixed order (of worker threads).
  virtual std::shared_ptr<void> serve(MemorySource& source, MemorySource& unordered) const = 0;
  /// From the first call on, the allocations of the framework on this device are counted.
  virtual const AllocationCounters& count_allocations() const = 0;
  /// Restarts the peaks of the counters from now on. Starts the count if it was off.
  virtual void reset_allocation_peaks() const = 0;

  /// What the framework keeps for good for each thread that runs ops, from its first product on:
  /// workspaces of libraries. By default nothing.
  virtual Bytes lasting_bytes() const { return 0; }
  /// Has it take them for this thread now.
  virtual void take_lasting() const {}

  /// Bytes of a saved state of the device's default generator. States lie in memory of the host.
  virtual Bytes generator_state_bytes() const = 0;
  virtual void save_generator(std::byte* state) const = 0;
  virtual void restore_generator(const std::byte* state) const = 0;

  /// Returns when all submitted work is done.
  virtual void synchronize() const = 0;
  /// Measures work on the device. By default with events, for a device that works later than it is
  /// asked to.
  virtual std::unique_ptr<WorkTimer> work_timer() const;

  /// The device's memory as it is now, whoever uses it. By default as the allocator tells it
  /// that LibTorch has for the type of device.
  virtual DeviceMemory memory() const;
};

const ComputeDevice& cpu_device();

/// Makes a device known to device_of(), in place of an earlier one of its type and index. `device`
/// must live until the process ends.
void add_device(const ComputeDevice& device);
/// The device on which these tensors lie. Throws InputError that lists the known ones.
const ComputeDevice& device_of(c10::Device device);

}  // namespace lowtide::device
