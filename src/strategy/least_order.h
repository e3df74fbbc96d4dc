#pragma once

#include "ordering/known_order.h"
#include "strategy/strategy.h"

namespace lowtide {

/// The order of least peak: from the request's KnownOrder, if it has one.
LeastPeak least_order(const PlanRequest& request, const StageGraph& stages,
                      const PeakEffort& effort, const Control& control);

}  // namespace lowtide
