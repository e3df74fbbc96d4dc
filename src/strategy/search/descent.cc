#include "strategy/search/descent.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/time_share.h"
#include "strategy/search/annealer.h"
#include "strategy/search/evictions.h"
#include "strategy/search/priced_descent.h"
#include "strategy/search/relief.h"
#include "strategy/search/start_events.h"

namespace lowtide::strategy::search {
namespace {

/// The plan with the smallest peak, of keep-all and the given plans.
std::vector<remat::Event> smallest(const remat::StageGraph& graph,
                                   std::vector<std::vector<remat::Event>> plans,
                                   const Control& control) {
  std::vector<remat::Event> smallest;
  Bytes least = remat::EventPlan(graph, 0).memory().peak();
  for (std::vector<remat::Event>& events : plans) {
    if (control.should_stop()) break;
    remat::EventPlan plan(graph, 0);
    remat::change_to(plan, events);
    if (plan.memory().peak() >= least) continue;
    least = plan.memory().peak();
    smallest = std::move(events);
  }
  return smallest;
}

/// Plans that keep less: makes values again that are cheap for their bytes, wherever that pays.
/// Else a large value that every segment reads would be held throughout.
std::vector<std::vector<remat::Event>> thinned(const remat::StageGraph& graph,
                                               std::vector<std::vector<remat::Event>> plans,
                                               const Control& control) {
  constexpr double kDear = 3;  // times the price above which a rerun of the average op pays
  const remat::Prices prices(std::vector<double>(graph.num_stages(), kDear * typical_price(graph)));
  for (std::vector<remat::Event>& events : plans) {
    if (control.should_stop()) break;
    events = PricedDescent(graph, prices).run(events, control);
  }
  return plans;
}

Descent descent_of(const remat::EventPlan& plan) {
  return {plan.events(), plan.cost(), plan.memory().peak()};
}

Descent descent_of(const remat::StageGraph& graph, const std::vector<remat::Event>& events) {
  remat::EventPlan plan(graph, 0);
  remat::change_to(plan, events);
  return descent_of(plan);
}

double mean_bytes(const remat::StageGraph& graph) {
  double bytes = 0;
  for (const remat::StageValue& value : graph.values()) bytes += static_cast<double>(value.bytes);
  return bytes / std::max(1.0, static_cast<double>(graph.values().size()));
}

/// How a descent by local search treats a step up.
enum class Steps : std::uint8_t { down_only, up_too };

/// Steps up pay where there is time for them.
Descent searched_from(const remat::StageGraph& graph, const std::vector<remat::Event>& start,
                      Bytes limit, Steps steps, const Control& control) {
  constexpr double kDear = 1e4;  // a step down is small, and worth many reruns
  constexpr double kHeat = 9;    // values of the average size above the limit in one stage
  constexpr double kCold = 1e-3;
  const double byte_price = kDear * typical_price(graph);
  const double heat = kHeat * byte_price * mean_bytes(graph);
  constexpr std::int64_t kPatience = 100'000;
  constexpr std::int64_t kPatiencePerStage = 2000;
  const Cooling down_only{kPatience, 0, 0};
  const Cooling up_too{std::max(kPatience, kPatiencePerStage * graph.num_stages()), heat,
                       kCold * heat};
  Annealer annealer(graph, limit, byte_price, 1);
  annealer.load(start);
  annealer.descend(steps == Steps::down_only ? down_only : up_too, control);
  return descent_of(annealer.plan());
}

/// Shares of the bytes above the residents by which a limit is lowered. Large steps come far in
/// little time on graphs of many thousand ops; small ones often end lower.
constexpr double kLargeStep = 0.1;
constexpr double kSmallStep = 0.03;

/// Goes on with the cheapest drops for the bytes above a limit. Lowers the limit in steps as long
/// as drops succeed: such drops change several stages at once. Then the steps become smaller.
Descent relieved(const remat::StageGraph& graph, Descent lowest, Bytes limit, double first_step,
                 const Control& control, int patience) {
  for (double step : {kLargeStep, kSmallStep, 0.01, 0.003}) {
    if (step > first_step) continue;
    while (lowest.peak > limit) {
      const auto above = static_cast<double>(lowest.peak - graph.resident_bytes());
      const Bytes asked = lowest.peak - 1 - static_cast<Bytes>(step * above);
      const auto smaller =
          Relief(graph, asked)
              .run(lowest.events, std::numeric_limits<double>::infinity(), control, patience);
      if (!smaller) break;
      lowest = descent_of(graph, *smaller);
    }
  }
  return lowest;
}

}  // namespace

Descent descend(const remat::StageGraph& graph, Bytes limit, const Control& control) {
  const Descent start = descent_of(graph, smallest(graph, segmentations(graph), control));
  Descent lowest = start;
  const auto take = [&](Descent other) {
    if (other.peak < lowest.peak) lowest = std::move(other);
  };
  const auto try_from = [&](const std::vector<remat::Event>& events, double share) {
    take(searched_from(graph, events, limit, Steps::down_only, share_of_time(control, share)));
  };
  const auto relieve = [&](double first_step, double share) {
    const Control part = share_of_time(control, share);
    take(relieved(graph, start, limit, first_step, part, Relief::kHasty));
  };
  relieve(kLargeStep, 0.6);
  if (lowest.peak > limit) try_from(lowest.events, 0.2);
  if (lowest.peak > limit) {
    auto plans = smaller_evictions(graph, share_of_time(control, 0.2));
    try_from(smallest(graph, std::move(plans), control), 0.4);
  }
  if (lowest.peak > limit) relieve(kSmallStep, 0.7);
  if (lowest.peak > limit) try_from(start.events, 0.4);
  if (lowest.peak > limit) {
    auto plans = thinned(graph, segmentations(graph), share_of_time(control, 0.5));
    try_from(smallest(graph, std::move(plans), control), 0.6);
  }
  return relieved(graph, std::move(lowest), limit, kSmallStep, control, Relief::kThorough);
}

Descent descend_from(const remat::StageGraph& graph, const std::vector<remat::Event>& start,
                     Bytes limit, const Control& control) {
  Descent lowest = relieved(graph, descent_of(graph, start), limit, kSmallStep,
                            share_of_time(control, 0.5), Relief::kHasty);
  if (lowest.peak <= limit) return lowest;
  Descent searched = searched_from(graph, lowest.events, limit, Steps::up_too, control);
  return searched.peak < lowest.peak ? searched : lowest;
}

}  // namespace lowtide::strategy::search
