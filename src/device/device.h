#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <memory>
#include <string>

#include "device/allocation.h"

namespace lowtide::device {

/// The interface of a kind of device for the executor and the profiler. A new kind is one file next
/// to cpu_device.cc with its allocator, its stream and its generator.
class ComputeDevice {
 public:
  virtual ~ComputeDevice() = default;

  /// "AMD EPYC (AVX2), 2 threads, LibTorch 2.13.0": the device of a profile.
  virtual std::string name() const = 0;
  virtual c10::Device torch_device() const = 0;

  /// One block of zero-filled memory at a multiple of 64. Throws Error when allocation fails.
  virtual std::shared_ptr<std::byte> allocate_block(Bytes bytes) const = 0;
  /// The same from the framework's own allocator, so that its memory counters include it. The
  /// content is undefined.
  virtual std::shared_ptr<std::byte> allocate_scratch(Bytes bytes) const = 0;
  /// While the result lives, `source` serves the requests of this thread's ops to the framework's
  /// allocator; `unordered` serves requests without a fixed order (of worker threads).
  virtual std::shared_ptr<void> serve(MemorySource& source, MemorySource& unordered) const = 0;

  /// Bytes of a saved state of the device's default generator.
  virtual Bytes generator_state_bytes() const = 0;
  virtual void save_generator(std::byte* state) const = 0;
  virtual void restore_generator(const std::byte* state) const = 0;

  /// Returns when all submitted work is done.
  virtual void synchronize() const = 0;
};

const ComputeDevice& cpu_device();

}  // namespace lowtide::device
