#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"

namespace lowtide::parallel {

/// Whether an op that is not a view and not among `inside` (by op) reads the storage, or it is an
/// output of the graph.
bool is_read_outside(const Graph& graph, TensorId storage, const std::vector<bool>& inside);

/// The graph of some ops of a step (ascending ids, no views; the views that they read are added).
/// Values that other ops make are received at the begin of the pass that first reads them; those
/// that others read are sent right after they are made (parallel/units/unit_draft.h).
Graph part_of_step(const Graph& step, std::span<const OpId> ops);

}  // namespace lowtide::parallel
