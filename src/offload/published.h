#pragma once

#include "offload/loads.h"
#include "plan/lanes.h"
#include "plan/plan.h"

/// What moves by rules that others published, to compare with. The plans are timed by the same
/// lanes as all others, and have no addresses in the arena.
namespace lowtide::offload {

/// Every value that the backward pass reads leaves when it is made, and comes back when that pass
/// first reads it. Ops wait for each copy. So does torch.autograd.graph.save_on_cpu.
Plan save_on_cpu(const Graph& graph, const Lanes& lanes);

/// The values that rest the longest, less the time of their copies, leave first, until the rest is
/// within the budget. One whose copies take longer than it rests runs again instead, where that
/// costs less than the wait (Peng et al., Capuchin, ASPLOS 2020). The plan with most evictions
/// where nothing is within the budget.
Plan capuchin(const Graph& graph, Bytes budget, const Lanes& lanes);

}  // namespace lowtide::offload
