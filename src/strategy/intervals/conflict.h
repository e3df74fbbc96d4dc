#pragma once

#include <vector>

#include "remat/event_plan.h"

namespace lowtide::strategy::intervals {

/// One op whose running again would make less live at some moment.
struct WayOut {
  int op = 0;
  int first = 0, last = 0;  ///< stages in which that would help, inclusive; also some where not
  Bytes bytes = 0;          ///< so many less, at most
};

/// A moment at which a plan is above its limit. A plan with more reruns than this one is within the
/// limit at that moment only if it has reruns from some of the ways out whose bytes add up to what
/// is missing: what is live there and read later must have been made again in between.
struct Conflict {
  Bytes missing = 0;  ///< bytes above the limit; none when not positive
  std::vector<WayOut> ways = {};  ///< each op once
};

/// The worst moment of a stage. O(values + runs in the stage x values live there).
Conflict conflict_in(const remat::StageGraph& graph, const remat::EventPlan& plan, int stage);

}  // namespace lowtide::strategy::intervals
