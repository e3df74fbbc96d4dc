#pragma once

#include <vector>

#include "graph/graph.h"
#include "plan/lanes.h"

/// Residents (parameters, optimizer state) that lie in slower memory between steps.
namespace lowtide::offload {

/// By tensor: whether a plan may keep the resident in slower memory between its uses. Not the
/// batch, which a program writes between steps. An op that writes it must be the last to read it.
/// The residents of a graph with a boundary are the caller's: of those, parameters that no op
/// writes and of which the caller is given no view.
std::vector<bool> movable_residents(const Graph& graph);

/// Those with bytes, the best to move first: many bytes that no op needs for long, for few copies.
std::vector<TensorId> residents_by_worth(const Graph& graph, const Lanes& lanes);

/// The order of ops in which one that only writes residents, such as the update of a parameter,
/// comes as soon as it may. So what it reads need not be held, and copies of what it writes go on
/// while other ops run.
std::vector<OpId> order_of_early_writes(const Graph& graph);

}  // namespace lowtide::offload
