#pragma once

#include <span>
#include <vector>

#include "ordering/precedence.h"

namespace lowtide::ordering {

/// Orders that are built one stage at a time in O(stages x candidates): starting points for
/// searches for a lower peak. Each names every stage but the end once, and respects the precedence.

/// From the first stage to the last. A stage that leaves no more bytes live than before runs at
/// once; else the stage that adds the fewest live bytes runs next.
std::vector<int> least_growth_order(const remat::StageGraph& graph, const Precedence& precedence);

/// The same, but otherwise the first stage in the graph's order runs next.
std::vector<int> eager_order(const remat::StageGraph& graph, const Precedence& precedence);

/// An order in which sinks, stages that make nothing for others, run as soon as they may where they
/// need no workspace, such as the update of a parameter: their inputs die earlier, and nothing
/// lives longer. All others keep `order`.
std::vector<int> with_early_sinks(const remat::StageGraph& graph, const Precedence& precedence,
                                  std::span<const int> order);

/// From the last stage to the first: takes a stage with no more bytes live before it than after it;
/// else the stage with the fewest live bytes before it.
std::vector<int> backward_order(const remat::StageGraph& graph, const Precedence& precedence);

}  // namespace lowtide::ordering
