#pragma once

#include <vector>

#include "base/control.h"
#include "layout/layout.h"
#include "plan/plan.h"

namespace lowtide::planner {

/// A plan with addresses, and the executions that it was lowered from.
struct PlacedPlan {
  Plan plan;
  std::vector<OpId> executions;
};

/// Removes reruns that the arena has space to avoid, one by one, each with the reruns that then
/// serve nothing. After each removal the plan must still have addresses within the capacity of the
/// goal. Precondition: the goal has a capacity, and `given` fits it. The result costs no more than
/// `given`; it is `given` when its executions are no set of events (remat/stage_graph.h). Ends when
/// no rerun can go or the work is used up. Deterministic, apart from time limits.
PlacedPlan without_needless_reruns(const Graph& graph, PlacedPlan given,
                                   const packing::PackingGoal& goal, const Control& control);

}  // namespace lowtide::planner
