#include "slower/host_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/machine_memory.h"
#include "slower/aligned_memory.h"
#include "slower/host_store.h"
#include "slower/measure.h"

namespace lowtide::slower {
namespace {

constexpr Bytes kMostToMeasure = Bytes{64} << 20;

}  // namespace

Bytes HostMemory::free_bytes() const { return machine_memory().free; }

LaneSpeed HostMemory::measured() const {
  if (speed_) return *speed_;
  return measure(*open(std::clamp(align_down(free_bytes() / 4, kPage), kPage, kMostToMeasure)));
}

std::unique_ptr<Store> HostMemory::open(Bytes bytes) const {
  const Bytes free = free_bytes();
  if (bytes > free) {
    throw Error(fmt::format("cannot take {} ({} bytes) of this machine's memory for values that "
                            "move: {} ({} bytes) are free; end other programs, or give a smaller "
                            "--host-budget",
                            format_bytes(bytes), bytes, format_bytes(free), free));
  }
  return std::make_unique<HostStore>(bytes, speed_.value_or(LaneSpeed{}));
}

}  // namespace lowtide::slower
