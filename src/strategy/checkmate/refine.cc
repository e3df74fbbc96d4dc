#include "strategy/checkmate/refine.h"

namespace lowtide {

std::vector<double> start_for(const StageModel& model, std::span<const Event> events) {
  constexpr double kViolation = 1e-9;
  std::vector<double> values = model.values_of(events);
  if (largest_violation(model.program(), values) > kViolation) values.clear();
  return values;
}

bool describe_overfull(const StageGraph& stages, std::span<const Event> events, Bytes budget,
                       std::vector<bool>& inside) {
  EventPlan plan(stages, budget);
  for (const Event event : events) plan.add(event);
  bool any = false;
  for (int t = 0; t < stages.num_stages(); ++t) {
    if (plan.memory().at(t) <= budget || inside[t]) continue;
    inside[t] = any = true;
  }
  return any;
}

}  // namespace lowtide
