#pragma once

#include <functional>
#include <span>

#include "base/bytes.h"
#include "slower/speed.h"
#include "slower/store.h"

namespace lowtide::slower {

/// How long one copy took.
struct CopyTime {
  Bytes bytes;
  double seconds;
};

/// The latency and the bandwidth that fit the times best (least squares), neither negative. Needs
/// copies of two sizes at least. A bandwidth of 0 (no limit) where larger copies took no longer.
Speed fitted_speed(std::span<const CopyTime> times);

/// Seconds from some moment on, by a clock that never goes back.
double steady_seconds();

/// Measures a store by a few copies of two sizes in each direction, and in both at once; of each
/// the quickest count. Overwrites the store, so values are not to lie there yet. Takes twice 32 MiB
/// of host memory, or what the store has if that is less. Throws InputError for a store of less
/// than 64 KiB, and as wait() when a copy fails. `now` tells the time in seconds.
LaneSpeed measure(Store& store, const std::function<double()>& now = steady_seconds);
/// The same with copies from and to this memory, whatever is in it.
LaneSpeed measure(Store& store, std::span<std::byte> memory, const std::function<double()>& now);

}  // namespace lowtide::slower
