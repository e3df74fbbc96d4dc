#include "strategy/search/descent.h"

#include <utility>

#include "strategy/search/anneal.h"
#include "strategy/search/start_events.h"

namespace lowtide {
namespace {

/// The leanest of keep-all and the segmentations.
std::vector<Event> leanest_start(const StageGraph& graph, const Control& control) {
  std::vector<Event> leanest;
  Bytes least = EventPlan(graph, 0).memory().peak();
  for (std::vector<Event>& events : segmentations(graph)) {
    if (control.should_stop()) break;
    EventPlan plan(graph, 0);
    for (Event event : events) plan.add(event);
    if (plan.memory().peak() >= least) continue;
    least = plan.memory().peak();
    leanest = std::move(events);
  }
  return leanest;
}

}  // namespace

Descent descend(const StageGraph& graph, Bytes limit, const Control& control) {
  constexpr double kDear = 1e4;  // a step down is small, and worth many reruns
  constexpr std::int64_t kPatience = 100'000;
  Annealer annealer(graph, limit, kDear * typical_price(graph), 1);
  annealer.load(leanest_start(graph, control));
  annealer.descend(kPatience, control);
  const EventPlan& plan = annealer.plan();
  return {plan.events(), plan.cost(), plan.memory().peak()};
}

}  // namespace lowtide
