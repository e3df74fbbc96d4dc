#pragma once

#include <array>
#include <span>

#include "base/control.h"
#include "offload/copies.h"
#include "offload/loads.h"
#include "plan/plan.h"

namespace lowtide::offload {

/// How much earlier than it must a load may begin: those that are tried for a good plan.
inline constexpr std::array kHurries{1.2, 2.0, 5.0, 20.0};

/// Turns a plan for a graph with loads into one for the graph itself, in which copies go on beside
/// ops: a value leaves as soon as it is made, if it is loaded later; its memory is freed when its
/// copy has ended; a load begins `hurry` times earlier than it must for its lane to be in time, if
/// memory allows, and no load is done of a value that is still there. Memory stays within `budget`,
/// if it does so where each copy ends at once. The result has lanes and addresses in slower memory,
/// and none in the arena. Of several hurries, the first whose plan ends first counts. The work is
/// counted by `control`.
///
/// A resident that is loaded is copied out when an op has written it. It leaves after its last use,
/// or after that copy.
Plan schedule(const Graph& graph, const LoadGraph& loads, const Plan& plan, const Routes& routes,
              Bytes budget, std::span<const double> hurries, const Control& control = Control());

}  // namespace lowtide::offload
