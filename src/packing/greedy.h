#pragma once

#include <cstdint>
#include <vector>

#include "packing/packing.h"

namespace lowtide::packing {

/// Sweeps in both directions of time, then placements in several orders while `most_work`, in
/// comparisons of two buffers, lasts: the lowest packing of all. Sizes must be multiples of
/// the packing's alignment; alignments and fixed offsets of buffers are respected. Stops
/// at `lower`.
/// `loads` is, per buffer, the most bytes alive at any time of its life.
Packing greedy_packing(const std::vector<Buffer>& buffers, const std::vector<Bytes>& loads,
                       Bytes lower, std::int64_t most_work);

}  // namespace lowtide::packing
