#pragma once

#include <optional>
#include <string_view>

#include "remat/stage_graph.h"
#include "strategy/strategy.h"

namespace lowtide::strategy {

/// What strategies over sets of events answer in the cases that need no search.

/// Keep-all, which nothing can beat, when that is within the budget.
std::optional<Decision> keep_all_if_it_fits(const remat::StageGraph& graph, Bytes budget);

/// When the leanest plan of `who` ("the search") is above the budget: infeasible, or stopped when
/// control ended the way to it.
Decision nothing_fits(Bytes leanest, std::string_view who, const Control& control);

}  // namespace lowtide::strategy
