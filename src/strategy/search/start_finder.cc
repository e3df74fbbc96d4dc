#include "strategy/search/start_finder.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "strategy/search/evictions.h"
#include "strategy/search/priced_descent.h"
#include "strategy/search/relief.h"
#include "strategy/search/start_events.h"

namespace lowtide::strategy::search {

StartFinder::StartFinder(const remat::StageGraph& graph, Bytes budget,
                         const bounds::PriceBound& bound, Annealer& annealer,
                         TimeShare share_of_time, const Control& listener)
    : graph_(graph),
      budget_(budget),
      bound_(bound),
      annealer_(annealer),
      share_of_time_(std::move(share_of_time)),
      listener_(listener) {}

Starts StartFinder::no_reruns() {
  Starts starts(graph_, budget_);
  starts.add(start_of({}));
  return starts;
}

Starts StartFinder::find() {
  Starts starts = no_reruns();
  relieve(Start(), budget_, Relief::kHasty, starts, share_of_time_(0.15));  // needs no prices
  bool any_priced_fits = false;
  std::vector<Start> too_large;
  for (bool from_bound : {true, false}) {
    const std::vector<Start> priced = priced_starts(from_bound);
    for (const Start& start : priced) starts.add(start);
    const auto fits = [&](const Start& start) { return start.peak <= budget_; };
    any_priced_fits = any_priced_fits || std::ranges::any_of(priced, fits);
    if (!any_priced_fits) add_relieved(priced, Relief::kHasty, starts);
    too_large.insert(too_large.end(), priced.begin(), priced.end());
  }
  if (!starts.any_fits()) add_relieved(too_large, Relief::kThorough, starts);
  if (!starts.any_fits()) add_small(starts);
  add_smaller(starts);
  if (auto mixed = starts.mixture_within(budget_)) starts.add(start_of(*mixed));
  return starts;
}

/// Starts from the bound's own solution, or from no events.
std::vector<Start> StartFinder::priced_starts(bool from_bound) {
  const Control part = share_of_time_(0.2);
  std::vector<Start> starts;
  std::vector<remat::Event> priced;
  for (double factor : {1.0, 1.05, 1.1, 1.2, 1.35, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0}) {
    if (part.should_stop()) break;
    std::optional<std::vector<remat::Event>> from = priced;
    if (from_bound) from = events_of(graph_, bound_.solution(factor));
    if (!from) break;
    priced = PricedDescent(graph_, bound_.prices().times(factor)).run(*from, part);
    starts.push_back(start_of(priced));
    if (Starts::is_small(starts.back(), budget_)) break;
  }
  return starts;
}

/// Makes the cheapest few that are too large fit.
void StartFinder::add_relieved(std::vector<Start> too_large, int patience, Starts& starts) {
  constexpr int kMost = 2;
  const Control part = share_of_time_(0.4);
  std::ranges::stable_sort(too_large, {}, &Start::cost);
  int found = 0;
  for (const Start& start : too_large) {
    if (found == kMost || part.should_stop()) break;
    if (start.events.empty()) continue;
    found += relieve(start, budget_, patience, starts, part).has_value();
  }
}

/// Makes the cheapest that fits need less and less memory, as addresses may need space.
void StartFinder::add_smaller(Starts& starts) {
  const Start* cheapest = starts.cheapest();
  if (cheapest == nullptr) return;
  std::optional<Start> from = *cheapest;
  const Control part = share_of_time_(0.3);
  for (double share : {0.97, 0.93, 0.88}) {
    const auto limit = static_cast<Bytes>(share * static_cast<double>(budget_));
    from = relieve(*from, limit, Relief::kHasty, starts, part);
    if (!from) return;
  }
}

/// Nothing where that fails.
std::optional<Start> StartFinder::relieve(const Start& start, Bytes limit, int patience,
                                          Starts& starts, const Control& control) {
  constexpr double kDear = 2;  // times the graph's cost
  if (control.should_stop()) return std::nullopt;
  const auto events =
      Relief(graph_, limit).run(start.events, kDear * graph_.required_cost(), control, patience);
  if (!events) return std::nullopt;
  Start relieved = start_of(*events);
  starts.add(relieved);
  return relieved;
}

/// Segments, as they are and thinned at the prices of the bound, and evictions.
void StartFinder::add_small(Starts& starts) {
  constexpr double kSegmentsTime = 0.15;
  const Control part = share_of_time_(kSegmentsTime);
  for (const std::vector<remat::Event>& events : segmentations(graph_)) {
    if (part.should_stop()) break;
    starts.add(start_of(events));
    starts.add(start_of(PricedDescent(graph_, bound_.prices()).run(events, part)));
  }
  constexpr double kEvictionsTime = 0.1;
  const Control last = share_of_time_(kEvictionsTime);
  for (double share : {1.0, 0.95, 0.9, 0.8}) {
    const auto limit = static_cast<Bytes>(share * static_cast<double>(budget_));
    for (const std::vector<remat::Event>& events : evictions(graph_, limit, last)) {
      starts.add(start_of(events));
    }
    if (starts.any_fits()) break;
  }
}

Start StartFinder::start_of(const std::vector<remat::Event>& events) {
  annealer_.load(events);
  const remat::EventPlan& plan = annealer_.plan();
  listener_.report(fmt::format("start of {:.3f}%, peak {}",
                               100 * (plan.cost() / graph_.required_cost() - 1),
                               format_bytes(plan.memory().peak())));
  return {plan.events(), plan.cost(), plan.memory().peak(), annealer_.rating()};
}

}  // namespace lowtide::strategy::search
