#pragma once

#include <cstdint>
#include <vector>

#include "packing/holes.h"
#include "packing/packing.h"

namespace lowtide::packing {

/// Positions of buffers.
using Order = std::vector<std::int32_t>;

/// Places the listed buffers as an allocator would: in the order of their begins, each into space
/// that ended buffers released. Sizes must be multiples of the alignment. O(n log n) for best fit,
/// and for first fit if few holes have sizes within a factor of two of the buffer.
Packing sweep(const std::vector<Buffer>& buffers, Order by_begin, Fit fit);

}  // namespace lowtide::packing
