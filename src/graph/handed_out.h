#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"

namespace lowtide {

/// The same graph, whose program takes so many bytes once the step is over
/// (GraphData::after_bytes).
Graph with_after_bytes(const Graph& graph, Bytes bytes);

/// The results of the first half (graph/boundary.h) that a caller may drop before the second: no
/// op behind the boundary reads them, and none that may run again there. Storages.
std::vector<TensorId> droppable_results(const Graph& graph);

/// The same graph for a caller that drops these droppable results before the second half: they own
/// the bytes that they take in the caller's memory, and are no outputs. Throws InputError for
/// others.
Graph with_results_dropped(const Graph& graph, std::span<const TensorId> results);

}  // namespace lowtide
