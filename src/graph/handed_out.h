#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"

namespace lowtide {

/// The same graph with another GraphData::after_bytes: the bytes that the program needs after the
/// step.
Graph with_after_bytes(const Graph& graph, Bytes bytes);

/// The same graph with no random op recomputable, for a program that cannot set the generator back
/// while the step runs.
Graph with_random_ops_kept(const Graph& graph);

/// Storages of results of the first half (graph/boundary.h) that a caller may drop before the
/// second half: neither an op after the boundary nor an op that may run again there reads them.
std::vector<TensorId> droppable_results(const Graph& graph);

/// The same graph for a caller that drops these droppable results before the second half: they own
/// their bytes in the caller's memory, and are not outputs. Throws InputError for results that are
/// not droppable.
Graph with_results_dropped(const Graph& graph, std::span<const TensorId> results);

}  // namespace lowtide
