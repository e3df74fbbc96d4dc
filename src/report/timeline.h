#pragma once

#include <vector>

#include "plan/plan.h"

namespace lowtide::report {

/// The times of one action, in the graph's cost unit.
struct Moment {
  double reached = 0;  ///< when all actions before it are done
  double begin = 0;    ///< of its run, copy or wait; a copy may begin later than it is reached
  double end = 0;
};

/// By action of a valid plan: ops one after another, copies beside them as LaneClock has them. The
/// last end of a run or wait is the plan's cost.
std::vector<Moment> timeline(const Graph& graph, const Plan& plan);

}  // namespace lowtide::report
