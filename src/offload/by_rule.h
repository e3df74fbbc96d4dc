#pragma once

#include "offload/ways.h"
#include "planner/planner.h"

namespace lowtide::offload {

/// Whether it is a method of others.
bool is_rule(Ways ways);

/// A plan by a method of others, with addresses. It finds no other plan where its own does not fit.
/// `reserved`: see planner::plan_within(). Precondition: is_rule(ways).
planner::Planned by_rule(const Graph& graph, Bytes budget, const Slower& slower, Ways ways,
                         const Control& control, Bytes reserved);

}  // namespace lowtide::offload
