#include "strategy/search/start_finder.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "strategy/search/evictions.h"
#include "strategy/search/priced_descent.h"
#include "strategy/search/relief.h"
#include "strategy/search/start_events.h"

namespace lowtide {

StartFinder::StartFinder(const StageGraph& graph, Bytes budget, const PriceBound& bound,
                         Annealer& annealer, TimeShare share_of_time, const Control& listener)
    : graph_(graph),
      budget_(budget),
      bound_(bound),
      annealer_(annealer),
      share_of_time_(std::move(share_of_time)),
      listener_(listener) {}

Starts StartFinder::find() {
  Starts starts(graph_, budget_);
  add_priced(starts);
  if (!starts.any_fits()) add_relieved(starts);
  if (!starts.any_fits()) add_lean(starts);
  if (auto mixed = starts.mixture_within(budget_)) starts.add(start_of(*mixed));
  return starts;
}

/// From the bound's own solution and from nothing.
void StartFinder::add_priced(Starts& starts) {
  const Control part = share_of_time_(0.3);
  starts.add(start_of({}));
  for (bool from_bound : {true, false}) {
    std::vector<Event> priced;
    for (double factor : {1.0, 1.05, 1.1, 1.2, 1.35, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0}) {
      if (part.should_stop()) return;
      std::optional<std::vector<Event>> from = priced;
      if (from_bound) from = events_of(graph_, bound_.solution(factor));
      if (!from) break;
      priced = PricedDescent(graph_, bound_.prices().times(factor)).run(*from, part);
      Start start = start_of(priced);
      const bool is_lean = starts.is_lean(start);
      starts.add(std::move(start));
      if (is_lean) break;
    }
  }
}

/// A few that are too large, made to fit; and the cheapest that does, made leaner, as addresses may
/// need.
void StartFinder::add_relieved(Starts& starts) {
  constexpr int kMost = 2;
  const Control part = share_of_time_(0.5);
  int found = 0;
  for (const Start& start : starts.too_large()) {
    if (found < kMost && !start.events.empty()) found += relieve(start, budget_, starts, part);
  }
  const Control last = share_of_time_(0.2);
  for (double share : {0.95, 0.9}) {
    const Start* cheapest = starts.cheapest();
    if (cheapest == nullptr) return;
    const auto limit = static_cast<Bytes>(share * static_cast<double>(budget_));
    relieve(Start(*cheapest), limit, starts, last);
  }
}

/// Whether that was possible.
bool StartFinder::relieve(const Start& start, Bytes limit, Starts& starts, const Control& control) {
  constexpr double kDear = 2;  // times the graph's cost
  if (control.should_stop()) return false;
  const auto events =
      Relief(graph_, limit).run(start.events, kDear * graph_.required_cost(), control);
  if (events) starts.add(start_of(*events));
  return events.has_value();
}

/// Segments, as they are and thinned at the prices of the bound, and evictions.
void StartFinder::add_lean(Starts& starts) {
  constexpr double kSegmentsTime = 0.15;
  const Control part = share_of_time_(kSegmentsTime);
  for (const std::vector<Event>& events : segmentations(graph_)) {
    if (part.should_stop()) break;
    starts.add(start_of(events));
    starts.add(start_of(PricedDescent(graph_, bound_.prices()).run(events, part)));
  }
  constexpr double kEvictionsTime = 0.1;
  const Control last = share_of_time_(kEvictionsTime);
  for (double share : {1.0, 0.95, 0.9, 0.8}) {
    const auto limit = static_cast<Bytes>(share * static_cast<double>(budget_));
    for (const std::vector<Event>& events : evictions(graph_, limit, last)) {
      starts.add(start_of(events));
    }
    if (starts.any_fits()) break;
  }
}

Start StartFinder::start_of(const std::vector<Event>& events) {
  annealer_.load(events);
  const EventPlan& plan = annealer_.plan();
  listener_.report(fmt::format("start of {:.3f}%, peak {}",
                               100 * (plan.cost() / graph_.required_cost() - 1),
                               format_bytes(plan.memory().peak())));
  return {plan.events(), plan.cost(), plan.memory().peak(), annealer_.rating()};
}

}  // namespace lowtide
