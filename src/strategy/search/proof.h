#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "bounds/price_bound.h"
#include "strategy/strategy.h"

namespace lowtide::strategy::search {

/// The result of an exact program about a plan.
struct Proof {
  double bound = 0;  ///< no plan whose first runs keep the graph's order costs less
  /// No such plan that runs each op at most once in a stage costs less; at least `bound`.
  double staged_bound = 0;
  /// A cheaper plan within the budget, if there was one.
  std::optional<std::vector<OpId>> executions;
  double cost = 0;  ///< of that plan
};

/// Whether a graph is small enough for prove().
bool can_prove(const remat::StageGraph& graph);

/// Proves a plan of that cost optimal, or finds a cheaper one, with a HeldSetProgram on the
/// prices of the bound; or raises the bound as far as `states` states allow. Begins coarsely:
/// small values are held for free, and plans may cost only little more than the bound. The
/// graph must be small enough (can_prove()). Same states, same result, unless control says
/// stop.
Proof prove(const PlanRequest& request, const remat::StageGraph& graph,
            const bounds::PriceBound& bound, double cost, std::int64_t states,
            const Control& control);

}  // namespace lowtide::strategy::search
