#pragma once

#include <vector>

#include "graph/graph.h"

namespace lowtide::profile {

/// The ops whose measurements decide the time of a step: one of each key (cost::profile_key) whose
/// runs together take at least a twentieth of what all ops take by the costs of the graph. So
/// there are at most twenty. In the order of the graph.
std::vector<OpId> heavy_ops(const Graph& graph);

}  // namespace lowtide::profile
