#pragma once

#include <vector>

#include "layout/layout.h"

namespace lowtide::layout {

/// What a plan takes from an arena: a buffer for each life of a storage, and for each workspace,
/// in the order in which its actions begin them. Times are indices of actions. A chain of writes in
/// place is one buffer, as large as its first storage. What takes no bytes is left out.
struct PlanBuffers {
  std::vector<packing::Buffer> buffers;
  std::vector<Placement> first;  ///< per buffer: what it holds first; the offset means nothing
};

/// Of a valid plan; residents are none of them.
PlanBuffers buffers_of(const Graph& graph, const Plan& plan);

/// With an offset for each of them.
Layout layout_of(const Graph& graph, const Plan& plan, const PlanBuffers& needed,
                 const std::vector<Bytes>& offsets);

}  // namespace lowtide::layout
