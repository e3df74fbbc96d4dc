#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/control.h"
#include "packing/packing.h"

namespace lowtide::packing {

/// The lowest packing found, and a bound on the lowest possible height.
struct SolvedPacking {
  Packing packing;
  Bytes lower_bound = 0;  ///< no packing is lower
  bool proven() const { return packing.height == lower_bound; }
};

/// Packs by quick heuristics, then by exact searches (search_valleys) for one target height after
/// another. Ends when the packing is proven the lowest or is within the capacity, when `control`
/// stops it, or when the work is used up. A capacity is infeasible if lower_bound exceeds it; if
/// only the height exceeds it, feasibility is unknown. Deterministic except for time limits. Throws
/// InputError when two fixed buffers overlap, or a fixed offset is negative or not aligned.
SolvedPacking solve_packing(const std::vector<Buffer>& buffers, const PackingGoal& goal,
                            const Control& control);

}  // namespace lowtide::packing
