#pragma once

#include "ordering/known_order.h"
#include "strategy/strategy.h"

namespace lowtide::strategy {

/// The order of least peak: from the request's KnownOrder, if it has one.
ordering::LeastPeak least_order(const PlanRequest& request, const remat::StageGraph& stages,
                                const ordering::PeakEffort& effort, const Control& control);

}  // namespace lowtide::strategy
