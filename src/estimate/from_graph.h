#pragma once

#include "estimate/estimate.h"
#include "graph/graph.h"

namespace lowtide::estimate {

/// The memory of a graph's step when every value is kept until its last use. Workspaces count as
/// far as the graph was profiled. Values in the caller's memory (graph/boundary.h) count as if they
/// were there during the whole step. O(ops x arity).
Estimate from_graph(const Graph& graph);

}  // namespace lowtide::estimate
