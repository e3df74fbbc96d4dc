#pragma once

#include <cstdint>
#include <vector>

#include "packing/holes.h"
#include "packing/packing.h"

namespace lowtide::packing {

/// Positions of buffers.
using Order = std::vector<std::int32_t>;

/// Places the listed buffers as an allocator would: in the order in which they begin, each into
/// what the ended ones gave back. Sizes must be multiples of the alignment. O(n log n) for best
/// fit; for first fit so where few holes have sizes within a factor of two of what is placed.
Packing sweep(const std::vector<Buffer>& buffers, Order by_begin, Fit fit);

}  // namespace lowtide::packing
