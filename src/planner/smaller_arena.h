#pragma once

#include "base/control.h"
#include "planner/spare_room.h"

namespace lowtide::planner {

/// Changes reruns of a plan, whatever they cost, so that its addresses need fewer bytes. A plan of
/// the fewest bytes in use leaves few ways to place its buffers, and some bytes more in use may
/// need fewer addresses. Local search by random drops and removals of reruns: those are kept that
/// lower the bytes in use above a share of the arena and have addresses within it.
///
/// `given` has a layout. The result needs no more bytes; it is `given` where addresses take few
/// more bytes than are in use at the peak, or where its executions are no set of events
/// (remat/stage_graph.h). Ends when nothing is gained or the limit of `control` is used up.
PlacedPlan with_smaller_arena(const Graph& graph, PlacedPlan given, const Control& control);

}  // namespace lowtide::planner
