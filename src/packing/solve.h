#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/control.h"
#include "packing/packing.h"

namespace lowtide::packing {

/// The lowest packing found, and what is known of the lowest there is.
struct SolvedPacking {
  Packing packing;
  Bytes lower_bound = 0;  ///< no packing is lower
  bool proven() const { return packing.height == lower_bound; }
};

/// Packs by quick heuristics, then, target by target, by searches that can prove (search_valleys).
/// A capacity is infeasible when lower_bound exceeds it; when only the height does, that is not
/// known. Until `control` stops it or the work is used up, in general only when the packing is
/// proven the lowest or within the capacity. Deterministic but for time limits.
/// Throws InputError when two fixed buffers overlap, or a fixed offset is negative or not aligned.
SolvedPacking solve_packing(const std::vector<Buffer>& buffers, const PackingGoal& goal,
                            const Control& control);

}  // namespace lowtide::packing
