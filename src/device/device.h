#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <memory>
#include <string>

#include "device/allocation.h"

namespace lowtide::device {

/// What the executor and the profiler need of a kind of device. A new one is one file beside
/// cpu_device.cc: its allocator, its stream, its generator.
class ComputeDevice {
 public:
  virtual ~ComputeDevice() = default;

  /// "AMD EPYC (AVX2), 2 threads, LibTorch 2.13.0": what a profile is valid for.
  virtual std::string name() const = 0;
  virtual c10::Device torch_device() const = 0;

  /// One block of zero-filled memory at a multiple of 64. Throws Error when it cannot be had.
  virtual std::shared_ptr<std::byte> allocate_block(Bytes bytes) const = 0;
  /// The same from the framework's own allocator, so that whoever counts its memory counts this;
  /// what it holds is undefined.
  virtual std::shared_ptr<std::byte> allocate_scratch(Bytes bytes) const = 0;
  /// While the result lives, what ops of this thread ask of the framework's allocator comes from
  /// `source`; requests without a fixed order (of worker threads) come from `unordered`.
  virtual std::shared_ptr<void> serve(MemorySource& source, MemorySource& unordered) const = 0;

  /// Bytes of a saved state of the device's default generator.
  virtual Bytes generator_state_bytes() const = 0;
  virtual void save_generator(std::byte* state) const = 0;
  virtual void restore_generator(const std::byte* state) const = 0;

  /// Returns when all work that was submitted is done.
  virtual void synchronize() const = 0;
};

const ComputeDevice& cpu_device();

}  // namespace lowtide::device
