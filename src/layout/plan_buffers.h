#pragma once

#include <vector>

#include "layout/layout.h"

namespace lowtide::layout {

/// The buffers of a plan in an arena: one for each life of a storage and for each workspace, in
/// order of the actions that begin them. Times are indices of actions. A chain of in-place writes
/// is one buffer, as large as its first storage. Empty buffers are left out.
struct PlanBuffers {
  std::vector<packing::Buffer> buffers;
  std::vector<Placement> first;  ///< per buffer: its first content; the offset is unused
};

/// The buffers of a valid plan, without residents that stay in memory.
PlanBuffers buffers_of(const Graph& graph, const Plan& plan);

/// The layout with an offset for each buffer.
Layout layout_of(const Graph& graph, const Plan& plan, const PlanBuffers& needed,
                 const std::vector<Bytes>& offsets);

}  // namespace lowtide::layout
