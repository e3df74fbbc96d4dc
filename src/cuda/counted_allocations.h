#pragma once

#include "cuda/slot.h"
#include "device/allocation.h"

namespace lowtide::cuda {

/// While it lives, what this thread takes from the caching allocator is Lowtide's own, and no
/// request of the caller's code.
class OwnRequest {
 public:
  OwnRequest();
  ~OwnRequest();
  OwnRequest(const OwnRequest&) = delete;
  OwnRequest& operator=(const OwnRequest&) = delete;
};

/// What the caching allocator gives and takes back on a device, from the first call for any device
/// on. It reports each itself: releases of its memory do not go through the slot.
device::AllocationCounters& counted_allocations(CUDAAllocator& native, c10::DeviceIndex device);

}  // namespace lowtide::cuda
