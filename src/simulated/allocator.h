#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include "device/allocation.h"

namespace lowtide::simulated {

/// The framework's allocator of the device.
c10::DeviceAllocator& allocator();

/// The framework's allocator, whatever serves this thread. Its grants are device addresses.
device::MemorySource& own_memory();

/// What serves this thread at the moment.
device::MemorySource& serving_source();

/// The memory that kernels ask the framework's CPU allocator for while they run for the device: it
/// comes from where the device's memory comes from, at host addresses.
device::MemorySource& kernel_source();

/// While it lives, `source`, whose grants are device addresses, serves this thread's requests for
/// the device's memory, those of kernels too. May be nested.
class DeviceServing {
 public:
  explicit DeviceServing(device::MemorySource& source);
  ~DeviceServing();
  DeviceServing(const DeviceServing&) = delete;
  DeviceServing& operator=(const DeviceServing&) = delete;

 private:
  device::MemorySource* previous_;
};

/// Gives the memory of a source of device addresses at host addresses.
class OnHost final : public device::MemorySource {
 public:
  explicit OnHost(device::MemorySource& source) : source_(source) {}
  Grant allocate(std::size_t bytes) override;

 private:
  device::MemorySource& source_;
};

/// The Release of host addresses of the device's memory, from any source.
void release_on_host(void* host);

/// The same memory as a DataPtr of the other device type. Precondition: it is the device's memory.
c10::DataPtr as_device_memory(c10::DataPtr host);

}  // namespace lowtide::simulated
