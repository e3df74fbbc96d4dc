#pragma once

#include "base/control.h"
#include "planner/spare_room.h"

namespace lowtide::planner {

/// Changes reruns of a plan, whatever they cost, so that its addresses need fewer bytes: buffers
/// that lie highest, and others that are alive with them, are given up for a while and made again
/// at another address, or reruns near them go. A plan of the fewest bytes in use leaves few ways to
/// place its buffers, and some bytes more in use may need fewer addresses.
///
/// `given` has a layout. The result needs no more bytes; it is `given` where its executions are no
/// set of events (remat/stage_graph.h). Ends when the limit of `control` is used up.
PlacedPlan with_smaller_arena(const Graph& graph, PlacedPlan given, const Control& control);

}  // namespace lowtide::planner
