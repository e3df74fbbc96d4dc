#include "strategy/search/descent.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/time_share.h"
#include "strategy/search/anneal.h"
#include "strategy/search/evictions.h"
#include "strategy/search/start_events.h"

namespace lowtide {
namespace {

/// The leanest of keep-all, the segmentations and the evictions.
std::vector<Event> leanest_start(const StageGraph& graph, const Control& control) {
  std::vector<std::vector<Event>> starts = segmentations(graph);
  std::ranges::move(leaner_evictions(graph, share_of_time(control, 0.2)),
                    std::back_inserter(starts));
  std::vector<Event> leanest;
  Bytes least = EventPlan(graph, 0).memory().peak();
  for (std::vector<Event>& events : starts) {
    if (control.should_stop()) break;
    EventPlan plan(graph, 0);
    change_to(plan, events);
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
