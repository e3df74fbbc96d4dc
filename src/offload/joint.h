#pragma once

#include "offload/ways.h"
#include "planner/planner.h"

namespace lowtide::offload {

/// Plans within a budget of bytes, with slower memory: the default strategy decides about reruns
/// and loads together (offload/loads.h) for several choices of the values that move, of the price
/// of a load, and of the memory that is left to copies; lanes are followed in time
/// (offload/schedule.h), and the plan that ends first is the answer. With Ways::both it ends no
/// later than with either way alone: each way has the whole limit of `control`, so that the call
/// may take three of them, and two more where residents may move too: those that are the best to
/// move, in several amounts. Then the plan ends no later than without that. Where all fits,
/// nothing moves. With two places, the same is done with each of them alone and with both
/// (offload/division.h), so that both give no worse plan than one. The budget contains the buffers
/// of copies; a plan that does not move has their bytes too. The bound of the answer is for plans
/// that may move what it moves (offload/bound.h), but with Ways::rerun.
planner::Planned plan_with(const Graph& graph, Bytes budget, const Slower& slower, Ways ways,
                           Control& control, Bytes reserved_bytes = 0);

}  // namespace lowtide::offload
