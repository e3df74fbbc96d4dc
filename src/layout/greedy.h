#pragma once

#include <cstdint>
#include <vector>

#include "layout/layout.h"

namespace lowtide {

/// What the heuristics may spend, in comparisons of two buffers.
struct GreedyWork {
  std::int64_t all = 0;
  std::int64_t each_improvement = 0;  ///< of an order; 0: take the plain orders
};

/// Sweeps in both directions of time, placements in several orders, and improved orders (squeaky
/// wheel, hill climbing) while work lasts: the lowest packing of all. Sizes must be multiples of
/// the packing's alignment; alignments and fixed offsets of buffers are respected. Stops
/// at `lower`.
/// `loads` is, per buffer, the most bytes alive at any time of its life.
Packing greedy_packing(const std::vector<Buffer>& buffers, const std::vector<Bytes>& loads,
                       Bytes lower, const GreedyWork& work);

}  // namespace lowtide
