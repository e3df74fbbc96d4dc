#include "strategy/least_order.h"

namespace lowtide::strategy {

ordering::LeastPeak least_order(const PlanRequest& request, const remat::StageGraph& stages,
                                const ordering::PeakEffort& effort, const Control& control) {
  ordering::KnownOrder unknown;
  ordering::KnownOrder& known = request.known_order != nullptr ? *request.known_order : unknown;
  return known.least(request.graph, stages, effort, control);
}

}  // namespace lowtide::strategy
