#include "strategy/least_order.h"

namespace lowtide {

LeastPeak least_order(const PlanRequest& request, const StageGraph& stages,
                      const PeakEffort& effort, const Control& control) {
  KnownOrder unknown;
  KnownOrder& known = request.known_order != nullptr ? *request.known_order : unknown;
  return known.least(request.graph, stages, effort, control);
}

}  // namespace lowtide
