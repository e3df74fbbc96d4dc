#include "strategy/checkmate/incumbent.h"

#include <utility>

#include "plan/in_place.h"
#include "plan/lower.h"

namespace lowtide::strategy::checkmate {

Bytes Incumbent::offer(std::span<const remat::Event> events) {
  std::vector<OpId> executions = remat::executions_of(stages_, events);
  const Plan plan = with_in_place(request_.graph, lower(request_.graph, executions));
  const bool better = !exists() || plan.cost < cost_;
  if (plan.peak_bytes <= request_.budget_bytes && better) {
    executions_ = std::move(executions);
    events_.assign(events.begin(), events.end());
    cost_ = plan.cost;
    exists_ = true;
  }
  return plan.peak_bytes;
}

}  // namespace lowtide::strategy::checkmate
