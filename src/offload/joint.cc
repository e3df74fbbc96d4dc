#include "offload/joint.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/time_share.h"
#include "certify/certificate.h"
#include "offload/bound.h"
#include "offload/poet.h"
#include "offload/published.h"
#include "offload/search.h"
#include "plan/replay.h"
#include "planner/realize.h"

namespace lowtide::offload {
namespace {

using planner::Planned;
using strategy::Outcome;

/// Everything kept: the answer where it fits.
Planned all_kept(const Graph& graph, Bytes budget) {
  std::vector<OpId> order(graph.ops().size());
  std::iota(order.begin(), order.end(), 0);
  return planner::plan_of(graph, order, "keep-all", budget);
}

bool is_rule(Ways ways) {
  return ways == Ways::save_on_cpu || ways == Ways::capuchin || ways == Ways::poet;
}

/// With less memory while writes in place that are not done, or holes of the arena, take it above
/// the budget.
std::optional<Plan> by_poet(const Graph& graph, Bytes budget, const Lanes& lanes,
                            const Control& control) {
  constexpr int kTries = 3;
  const Bytes floor = structural_floor(graph).bytes;
  std::optional<Plan> found;
  Bytes peak = budget;
  for (int tries = 0; tries < kTries && peak >= floor; ++tries) {
    std::optional<Plan> plan = poet(graph, peak, lanes, control);
    if (!plan) break;
    found = planner::with_addresses(graph, *std::move(plan), budget);
    const Bytes excess = found->layout->arena_bytes - budget;
    if (excess <= 0) break;
    peak -= excess;
  }
  return found;
}

/// With addresses.
std::optional<Plan> plan_by_rule(const Graph& graph, Bytes budget, const Lanes& lanes, Ways ways,
                                 const Control& control) {
  if (ways == Ways::poet) return by_poet(graph, budget, lanes, control);
  return planner::with_addresses(
      graph, ways == Ways::capuchin ? capuchin(graph, budget, lanes) : save_on_cpu(graph, lanes),
      budget);
}

/// Where a rule finds no plan at all.
Planned none_by_rule(const Graph& graph, Bytes budget, Ways ways, const Control& control,
                     Bytes reserved) {
  Planned planned = planner::nothing_planned(graph, budget);
  const Bytes floor = structural_floor(graph).bytes;
  const std::string within = planner::in_full(budget + reserved);
  if (control.should_stop() && budget >= floor) {
    planned.outcome = Outcome::stopped;
    planned.message =
        fmt::format("{} was stopped, or its time was over, before it found a plan within {}.",
                    name(ways), within);
    return planned;
  }
  planned.message = fmt::format(
      "infeasible: {} has no plan within {}. It moves no parameters and no optimizer state, so "
      "that it needs {} at least.",
      name(ways), within, planner::in_full(floor + reserved));
  return planned;
}

/// A plan by a rule of others, which finds no other where that one does not fit.
Planned by_rule(const Graph& graph, Bytes budget, const Slower& slower, Ways ways,
                const Control& control, Bytes reserved) {
  std::optional<Plan> found = plan_by_rule(graph, budget, slower.lanes, ways, control);
  if (!found) return none_by_rule(graph, budget, ways, control, reserved);
  Plan plan = *std::move(found);
  plan.strategy = name(ways);
  const Bytes needed = plan.layout->arena_bytes;
  plan.budget_bytes = std::max(budget, needed);
  planner::require_valid(graph, plan);
  Planned planned = planner::nothing_planned(graph, budget);
  const Bytes moved = plan.slower ? plan.slower->bytes : 0;
  if (needed <= budget && slower.has_room(moved)) {
    planned.outcome = Outcome::feasible;
    planned.plan = std::move(plan);
    return planned;
  }
  planned.message =
      fmt::format("infeasible: {} needs {} of memory and {} of slower memory.", plan.strategy,
                  planner::in_full(needed + reserved), planner::in_full(moved));
  if (!slower.has_room(moved)) return planned;
  planned.smallest_budget = needed;
  planned.smallest_plan = std::move(plan);
  return planned;
}

/// Of a whole limit, in addition to those of the searches.
constexpr double kShareOfBound = 0.3;

/// With moves alone, and then with both ways where that is wanted.
void search_with_residents(Search& search, Ways ways, const Control& control) {
  if (search.is_good_enough()) return;
  search.run_with_residents(control.renewed());
  if (ways == Ways::both) search.run(/*reruns=*/true, control.renewed());
}

/// The best plan of the ways. Each has the whole limit, so that more ways give no worse plan.
Planned searched(const Graph& graph, Bytes budget, const Slower& slower, Ways ways,
                 const Control& control, Bytes reserved) {
  if (is_rule(ways)) return by_rule(graph, budget, slower, ways, control, reserved);
  Search search(graph, budget, slower, ways, reserved);
  const bool may_move_residents = slower.residents && ways != Ways::rerun;
  const bool must_move_residents = may_move_residents && structural_floor(graph).bytes > budget;
  if (must_move_residents) {
    search_with_residents(search, ways, control);
    return search.take();
  }
  if (ways != Ways::rerun) search.run(/*reruns=*/false, control.renewed());
  if (ways != Ways::move && !search.is_good_enough()) {
    Control whole = control.renewed();
    search.offer(
        planner::plan_within(graph, strategy::default_strategy(), budget, {}, whole, reserved));
  }
  if (ways == Ways::both) search.run(/*reruns=*/true, control.renewed());
  if (may_move_residents) search_with_residents(search, ways, control);
  return search.take();
}

/// In place of a bound for plans that only rerun. Without a plan there is none.
void add_bound(const Graph& graph, const Lanes& lanes, Planned& planned, const Control& control) {
  planned.certificate.reset();
  if (!planned.plan) return;
  Plan& plan = *planned.plan;
  const Control whole = control.renewed();
  Control part = share_of_time(whole, kShareOfBound);
  planned.certificate = lower_bound(graph, planned.budget_bytes, lanes, plan, part);
  plan.lower_bound = planned.certificate->lower_bound;
  plan.model = planned.certificate->chain ? "any-order" : "fixed-order";
  constexpr double kSame = 1 + 1e-9;
  planned.outcome = plan.cost <= kSame * *plan.lower_bound ? Outcome::optimal : Outcome::feasible;
}

}  // namespace

Planned plan_with(const Graph& graph, Bytes budget, const Slower& slower, Ways ways,
                  Control& control, Bytes reserved_bytes) {
  const Control clock;
  Planned best = all_kept(graph, budget);
  if (!best.plan) best = searched(graph, budget, slower, ways, control, reserved_bytes);
  if (ways != Ways::rerun) add_bound(graph, slower.lanes, best, control);
  best.reserved_bytes = reserved_bytes;
  best.seconds = clock.elapsed_seconds();
  if (best.plan) best.plan->seconds = best.seconds;
  return best;
}

}  // namespace lowtide::offload
