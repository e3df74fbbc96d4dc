#pragma once

#include <optional>
#include <vector>

#include "remat/stage_graph.h"

namespace lowtide::strategy::lower_sets {

/// A set of forward stages (true per stage) that contains all predecessors of its stages.
using LowerSet = std::vector<bool>;

/// Every lower set, smaller ones first; nothing when there are more than `most`.
std::optional<std::vector<LowerSet>> all_lower_sets(const remat::StageGraph& graph, int forward_end,
                                                    int most);

/// The empty set, the whole, and for each stage the stage with all its predecessors; smaller ones
/// first. Every k-th of them when there are more than `most`.
std::vector<LowerSet> pruned_lower_sets(const remat::StageGraph& graph, int forward_end, int most);

}  // namespace lowtide::strategy::lower_sets
