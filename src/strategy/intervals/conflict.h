#pragma once

#include <vector>

#include "remat/event_plan.h"

namespace lowtide::strategy::intervals {

/// An op whose rerun would free memory at some moment.
struct WayOut {
  int op = 0;
  int first = 0, last = 0;  ///< stages in which a rerun may help, inclusive; in some it may not
  Bytes bytes = 0;          ///< upper bound on the bytes freed
};

/// A moment at which a plan is above its limit. A plan with additional reruns is within the limit
/// there only if it has reruns from some of the ways out whose bytes sum up to `missing`: some of
/// the values live there and read later must have been made again in between.
struct Conflict {
  Bytes missing = 0;              ///< bytes above the limit; none when not positive
  std::vector<WayOut> ways = {};  ///< each op once
};

/// The worst moment of a stage. O(values + runs in the stage x values live there).
Conflict conflict_in(const remat::StageGraph& graph, const remat::EventPlan& plan, int stage);

}  // namespace lowtide::strategy::intervals
