#include <c10/core/CachingDeviceAllocator.h>

#include <algorithm>

#include "device/device.h"

namespace lowtide::device {

DeviceMemory memory_told_by(c10::DeviceAllocator& allocator, c10::DeviceIndex index) {
  const auto [free, total] = allocator.getMemoryInfo(index);
  const c10::CachingDeviceAllocator::DeviceStats stats = allocator.getDeviceStats(index);
  constexpr std::size_t kAll = 0;  // of the statistics: blocks of every size
  const std::int64_t cached =
      stats.reserved_bytes[kAll].current - stats.allocated_bytes[kAll].current;
  return {.total = static_cast<Bytes>(total),
          .free = static_cast<Bytes>(free) + std::max<Bytes>(cached, 0)};
}

DeviceMemory ComputeDevice::memory() const {
  const c10::Device device = torch_device();
  return memory_told_by(*c10::getDeviceAllocator(device.type()), device.index());
}

std::unique_ptr<WorkTimer> ComputeDevice::work_timer() const { return event_timer(torch_device()); }

}  // namespace lowtide::device
