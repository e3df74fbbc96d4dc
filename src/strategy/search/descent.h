#pragma once

#include <vector>

#include "base/control.h"
#include "remat/event_plan.h"

namespace lowtide::strategy::search {

/// Where a way down ended.
struct Descent {
  std::vector<remat::Event> events;
  double cost = 0;
  Bytes peak = 0;
};

/// From the leanest evictions, then from the leanest segmentation, and then from the leanest of
/// those without what is cheap to make again, lowers the peak as far as local search goes, and from
/// the lowest by the cheapest drops (strategy/search/relief.h), or until it is within the limit,
/// whatever the cost. The way does not depend on the limit, only where it ends: so who names the
/// peak that it ended with reaches it when asked for it.
Descent descend(const remat::StageGraph& graph, Bytes limit, const Control& control);

}  // namespace lowtide::strategy::search
