#include "strategy/search/descent.h"

#include <utility>

#include "base/time_share.h"
#include "strategy/search/anneal.h"
#include "strategy/search/evictions.h"
#include "strategy/search/start_events.h"

namespace lowtide {
namespace {

/// The leanest of keep-all and the given plans.
std::vector<Event> leanest(const StageGraph& graph, std::vector<std::vector<Event>> plans,
                           const Control& control) {
  std::vector<Event> leanest;
  Bytes least = EventPlan(graph, 0).memory().peak();
  for (std::vector<Event>& events : plans) {
    if (control.should_stop()) break;
    EventPlan plan(graph, 0);
    change_to(plan, events);
    if (plan.memory().peak() >= least) continue;
    least = plan.memory().peak();
    leanest = std::move(events);
  }
  return leanest;
}

Descent descend_from(const StageGraph& graph, const std::vector<Event>& start, Bytes limit,
                     const Control& control) {
  constexpr double kDear = 1e4;  // a step down is small, and worth many reruns
  constexpr std::int64_t kPatience = 100'000;
  Annealer annealer(graph, limit, kDear * typical_price(graph), 1);
  annealer.load(start);
  annealer.descend(kPatience, control);
  const EventPlan& plan = annealer.plan();
  return {plan.events(), plan.cost(), plan.memory().peak()};
}

}  // namespace

Descent descend(const StageGraph& graph, Bytes limit, const Control& control) {
  const std::vector<Event> evicting =
      leanest(graph, leaner_evictions(graph, share_of_time(control, 0.2)), control);
  Descent lowest = descend_from(graph, evicting, limit, share_of_time(control, 0.6));
  if (lowest.peak <= limit) return lowest;
  const std::vector<Event> segmented = leanest(graph, segmentations(graph), control);
  Descent other = descend_from(graph, segmented, limit, control);
  return other.peak < lowest.peak ? std::move(other) : std::move(lowest);
}

}  // namespace lowtide
