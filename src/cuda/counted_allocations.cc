#include "cuda/counted_allocations.h"

#include <array>

namespace lowtide::cuda {
namespace {

using c10::CachingDeviceAllocator::TraceEntry;

thread_local int own_requests = 0;

using Counters = std::array<device::AllocationCounters, C10_COMPILE_TIME_MAX_GPUS>;

Counters& counters() {
  static Counters* const all = new Counters;  // the allocator may report until the process ends
  return *all;
}

/// Runs under the allocator's lock.
void count(const TraceEntry& entry) {
  device::AllocationCounters& counted = counters()[static_cast<std::size_t>(entry.device_)];
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the allocator reports addresses as numbers
  const void* const data = reinterpret_cast<const void*>(entry.addr_);
  if (entry.action_ == TraceEntry::ALLOC) {
    counted.taken.add(data, entry.size_);
    if (own_requests == 0) counted.unserved.add(data, entry.size_);
  } else if (entry.action_ == TraceEntry::FREE_REQUESTED) {
    counted.taken.remove(data);
    counted.unserved.remove(data);
  }
}

}  // namespace

OwnRequest::OwnRequest() { ++own_requests; }
OwnRequest::~OwnRequest() { --own_requests; }

device::AllocationCounters& counted_allocations(CUDAAllocator& native, c10::DeviceIndex device) {
  [[maybe_unused]] static const bool counting = (native.attachAllocatorTraceTracker(&count), true);
  return counters().at(static_cast<std::size_t>(device));
}

}  // namespace lowtide::cuda
