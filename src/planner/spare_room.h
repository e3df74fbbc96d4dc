#pragma once

#include <vector>

#include "base/control.h"
#include "layout/layout.h"
#include "plan/plan.h"

namespace lowtide::planner {

/// A plan with addresses, and the executions that it was lowered from.
struct LaidOut {
  Plan plan;
  std::vector<OpId> executions;
};

/// Where a plan's arena has room over time, values are held there instead of made again: reruns go,
/// one by one with those that then serve nothing, as long as the rest has addresses within the
/// capacity of the goal, which must be given. Never dearer than what it is given, which must be
/// within that capacity; the same where its executions are no set of events
/// (remat/stage_graph.h). Until nothing more can go or the work is used up; deterministic but
/// for time limits.
LaidOut without_needless_reruns(const Graph& graph, LaidOut given, const packing::PackingGoal& goal,
                                const Control& control);

}  // namespace lowtide::planner
