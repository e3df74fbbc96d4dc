#pragma once

#include <vector>

#include "plan/plan.h"

namespace lowtide::offload {

/// By storage: how much sooner the plan would end, at most, without the copies of that storage, by
/// the waits in it. A wait is for a copy and for those that its lane did before it without a pause:
/// each of them would save its own time there, and no more than was waited.
std::vector<double> time_of_waits(const Graph& graph, const Plan& plan);

}  // namespace lowtide::offload
