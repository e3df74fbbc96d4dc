#include "offload/by_rule.h"

#include <fmt/format.h>

#include <utility>

#include "layout/sections.h"
#include "offload/poet.h"
#include "offload/published.h"
#include "plan/replay.h"
#include "planner/realize.h"

namespace lowtide::offload {
namespace {

using planner::Planned;
using strategy::Outcome;

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
    const Bytes excess = layout::needed_bytes(graph, *found) - budget;
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
  planned.reserved_bytes = reserved;
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

}  // namespace

bool is_rule(Ways ways) {
  return ways == Ways::save_on_cpu || ways == Ways::capuchin || ways == Ways::poet;
}

Planned by_rule(const Graph& graph, Bytes budget, const Slower& slower, Ways ways,
                const Control& control, Bytes reserved) {
  std::optional<Plan> found = plan_by_rule(graph, budget, slower.lanes, ways, control);
  if (!found) return none_by_rule(graph, budget, ways, control, reserved);
  Plan plan = *std::move(found);
  plan.strategy = name(ways);
  const Bytes needed = layout::needed_bytes(graph, plan);
  plan.budget_bytes = std::max(budget, needed);
  planner::require_valid(graph, plan);
  Planned planned = planner::nothing_planned(graph, budget);
  planned.reserved_bytes = reserved;
  const Bytes moved = plan.slower ? plan.slower->bytes : 0;
  const bool has_room = !plan.slower || slower.has_room(*plan.slower);
  if (needed <= budget && has_room) {
    planned.outcome = Outcome::feasible;
    planned.plan = std::move(plan);
    return planned;
  }
  planned.message =
      fmt::format("infeasible: {} needs {} of memory and {} of slower memory.", plan.strategy,
                  planner::in_full(needed + reserved), planner::in_full(moved));
  if (!has_room) return planned;
  planned.smallest_budget = needed;
  planned.smallest_plan = std::move(plan);
  return planned;
}

}  // namespace lowtide::offload
