#pragma once

#include <vector>

#include "ordering/precedence.h"

namespace lowtide::ordering {

/// Orders that are made one stage at a time, O(stages x those that may be next): where searches
/// for a lower peak may begin. Each names every stage but the end once, as the precedence allows.

/// From the first to the last. What leaves no more live than before comes at once; else the stage
/// that adds the fewest bytes to what is live.
std::vector<int> least_growth_order(const remat::StageGraph& graph, const Precedence& precedence);

/// The same, but else the stage that is the first in the graph.
std::vector<int> eager_order(const remat::StageGraph& graph, const Precedence& precedence);

/// From the last to the first: what leaves no more live before it than behind it, and else what
/// leaves the least.
std::vector<int> backward_order(const remat::StageGraph& graph, const Precedence& precedence);

}  // namespace lowtide::ordering
