#include "strategy/search/descent.h"

#include "strategy/search/anneal.h"

namespace lowtide {

Descent descend(const StageGraph& graph, Bytes limit, const Control& control) {
  constexpr double kDear = 1e4;  // a step down is small, and worth many reruns
  constexpr std::int64_t kPatience = 100'000;
  Annealer annealer(graph, limit, kDear * typical_price(graph), 1);
  annealer.load({});
  annealer.descend(kPatience, control);
  const EventPlan& plan = annealer.plan();
  return {plan.events(), plan.cost(), plan.memory().peak()};
}

}  // namespace lowtide
