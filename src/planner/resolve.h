#pragma once

#include "base/budget.h"
#include "graph/graph.h"

namespace lowtide::planner {

/// The budget of a plan of this graph, in bytes. From 100% on, a share holds keep-all with
/// addresses as well: its peak counts no bytes between values, which lie at multiples of the
/// graph's alignment.
Bytes resolve(const Budget& budget, const Graph& graph);

}  // namespace lowtide::planner
