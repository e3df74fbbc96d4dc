#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/control.h"
#include "layout/sections.h"

namespace lowtide::layout {

/// A layout by local search (packing/ejection_search.h) from offsets that are known for some.
struct Repair {
  std::optional<Layout> layout;  ///< nothing when the work did not get there
  std::int64_t work = 0;         ///< what it took
};

/// `offsets`: per buffer of the plan, or EjectionSearch::kUnplaced; those placed do not overlap.
/// Within the goal's capacity, which must be given. No work when no layout is within it.
/// Deterministic but for time limits.
Repair repaired(const SectionedBuffers& buffers, std::vector<Bytes> offsets,
                const packing::PackingGoal& goal, const Control& control);

}  // namespace lowtide::layout
