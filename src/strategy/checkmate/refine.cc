#include "strategy/checkmate/refine.h"

namespace lowtide::strategy::checkmate {

std::vector<double> start_for(const StageModel& model, std::span<const remat::Event> events,
                              std::span<const StageModel::Load> loads) {
  constexpr double kViolation = 1e-9;
  std::vector<double> values = model.values_of(events, loads);
  if (solver::largest_violation(model.program(), values) > kViolation) values.clear();
  return values;
}

bool describe_overfull(const remat::StageGraph& stages, std::span<const remat::Event> events,
                       Bytes budget, std::vector<bool>& inside) {
  remat::EventPlan plan(stages, budget);
  for (const remat::Event event : events) plan.add(event);
  bool any = false;
  for (int t = 0; t < stages.num_stages(); ++t) {
    if (plan.memory().at(t) <= budget || inside[t]) continue;
    inside[t] = any = true;
  }
  return any;
}

}  // namespace lowtide::strategy::checkmate
