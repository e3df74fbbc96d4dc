#pragma once

#include <span>
#include <vector>

#include "offload/loads.h"
#include "plan/plan.h"

namespace lowtide::offload {

/// An action of the plan without lanes: copies take no time in it.
struct Step {
  Action action;        ///< a run, a free, or a prefetch that brings a value at once
  Bytes memory = 0;     ///< that is in use during the action
  double ready = 0;     ///< when the action begins, if nothing has to wait
  bool leaves = false;  ///< a free of a value that is loaded later
};

/// The actions of a plan for a graph with loads, in terms of the graph itself, with the memory and
/// the time of each. `residents`: those that lie in slower memory where the step begins.
std::vector<Step> steps_of(const Graph& graph, const LoadGraph& loads, const Plan& plan,
                           std::span<const TensorId> residents);

/// The storage over which the op writes that output in place.
TensorId overwritten(const Graph& graph, const Op& op, int output);

}  // namespace lowtide::offload
