#pragma once

#include <cstdint>
#include <vector>

#include "packing/packing.h"

namespace lowtide::packing {

/// The lowest packing of sweeps in both directions of time, then of placements in several
/// orders, within `most_work` comparisons of two buffers. Sizes must be multiples of the
/// packing's alignment. Respects the buffers' alignments and fixed offsets. Stops when the
/// height is `lower`. `loads` is, per buffer, the most bytes alive at any time of its
/// life.
Packing greedy_packing(const std::vector<Buffer>& buffers, const std::vector<Bytes>& loads,
                       Bytes lower, std::int64_t most_work);

}  // namespace lowtide::packing
