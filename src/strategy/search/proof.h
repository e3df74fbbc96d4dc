#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "bounds/price_bound.h"
#include "strategy/strategy.h"

namespace lowtide::strategy::search {

/// What an exact program found out about a plan.
struct Proof {
  double bound = 0;  ///< no plan whose first runs keep the graph's order costs less
  /// None of them costs less that runs each op at most once in a stage, in order: at least `bound`.
  double staged_bound = 0;
  /// Of a cheaper plan within the budget, when there was one.
  std::optional<std::vector<OpId>> executions;
  double cost = 0;   ///< of that plan
};

/// Whether a graph is small enough for prove().
bool can_prove(const remat::StageGraph& graph);

/// Proves a plan of that cost optimal, or finds a cheaper one, with a HeldSetProgram on the prices
/// of the bound; or raises the bound as far as `states` states of that program allow. Begins
/// coarsely, with values below a part of the budget held for nothing, and with plans that cost
/// little more than the bound. The graph must be small enough. Same states, same result, unless
/// control says stop.
Proof prove(const PlanRequest& request, const remat::StageGraph& graph,
            const bounds::PriceBound& bound, double cost, std::int64_t states,
            const Control& control);

}  // namespace lowtide::strategy::search
