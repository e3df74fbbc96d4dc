#pragma once

#include <vector>

#include "base/control.h"
#include "remat/event_plan.h"

namespace lowtide::strategy::search {

/// The end of a descent.
struct Descent {
  std::vector<remat::Event> events;
  double cost = 0;
  Bytes peak = 0;
};

/// Lowers the peak: by the cheapest drops (strategy/search/relief.h) from the segmentation, which
/// is fast on large graphs; then by local search from where these end, the evictions, the
/// segmentation, and the segmentation without cheaply remade values; then by drops from the lowest
/// of these. Stops within the limit, whatever the cost. The path does not depend on the limit, only
/// its end does: so a later call with the reached peak as limit succeeds.
Descent descend(const remat::StageGraph& graph, Bytes limit, const Control& control);

/// Goes on from a plan: by the cheapest drops, then by local search.
Descent descend_from(const remat::StageGraph& graph, const std::vector<remat::Event>& start,
                     Bytes limit, const Control& control);

}  // namespace lowtide::strategy::search
