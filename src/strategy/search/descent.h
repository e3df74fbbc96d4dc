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

/// Lowers the peak by local search from three starts: the evictions, the segmentation, and the
/// segmentation without cheaply remade values that need the least memory. Continues from the lowest
/// peak with the cheapest drops (strategy/search/relief.h). Stops within the limit, whatever the
/// cost. The path does not depend on the limit, only its end does: so a later call with the reached
/// peak as limit succeeds.
Descent descend(const remat::StageGraph& graph, Bytes limit, const Control& control);

}  // namespace lowtide::strategy::search
