#pragma once

#include <optional>
#include <string_view>

#include "graph/graph.h"
#include "remat/stage_graph.h"
#include "strategy/strategy.h"

namespace lowtide::strategy {

/// Answers of strategies over sets of events in the cases that need no search.

/// Keep-all, which no plan can beat, if it is within the budget.
std::optional<Decision> keep_all_if_it_fits(const remat::StageGraph& graph, Bytes budget);

/// Of a decision with a plan: optimal where its bound proves that. Views that run again cost too,
/// which searches over sets of events do not count.
Outcome outcome_of(const Graph& graph, const Decision& decision);

/// The answer when the smallest peak of any plan of `who` ("the search") is above the budget:
/// infeasible, or stopped when control ended the descent to it. `executions`: of that plan; may be
/// empty.
Decision nothing_fits(Bytes smallest_peak, std::vector<OpId> executions, std::string_view who,
                      const Control& control);

/// The decision with the bound and the certificate of another one for the same budget.
Decision with_bound_of(const Decision& other, Decision decision);

}  // namespace lowtide::strategy
