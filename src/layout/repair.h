#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/control.h"
#include "layout/sections.h"

namespace lowtide::layout {

/// A layout by local search (packing/ejection_search.h) from known offsets of some buffers.
struct Repair {
  std::optional<Layout> layout;  ///< nothing when the search did not succeed
  std::int64_t work = 0;         ///< the work used
};

/// `offsets`: per buffer of the plan, not overlapping, or EjectionSearch::kUnplaced. Precondition:
/// the goal has a capacity. No work when no layout fits the capacity. Deterministic except for time
/// limits.
Repair repaired(const SectionedBuffers& buffers, std::vector<Bytes> offsets,
                const packing::PackingGoal& goal, const Control& control);

}  // namespace lowtide::layout
