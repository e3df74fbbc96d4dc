#include "planner/realize.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "layout/layout.h"
#include "plan/in_place.h"
#include "plan/lower.h"
#include "plan/replay.h"
#include "plan/residents.h"
#include "plan/verify.h"

namespace lowtide::planner {

Plan lower_in_place(const Graph& graph, std::span<const OpId> executions, const Control& control) {
  constexpr double kNanosecondsPerAction = 200;
  Plan plan = with_in_place(graph, lower(graph, executions));
  control.count(kNanosecondsPerAction * static_cast<double>(plan.actions.size()));
  return plan;
}

packing::PackingGoal packing_goal(const Graph& graph, Bytes budget, std::int64_t work) {
  // A graph that is only planned and never run needs no alignment.
  const Bytes alignment = graph.executable() ? graph.alignment() : 1;
  return {alignment, std::max<Bytes>(0, budget - graph.resident_bytes()), work};
}

Plan with_addresses(const Graph& graph, Plan plan, Bytes budget, std::int64_t work,
                    const Control& control) {
  const Bytes away = graph.resident_bytes() - staying_bytes(graph, plan);
  const packing::PackingGoal goal = packing_goal(graph, budget + away, work);
  plan.layout = layout::assign_addresses(graph, plan, goal, control);
  return plan;
}

void require_valid(const Graph& graph, const Plan& plan) {
  if (const auto violation = verify(graph, plan)) {
    throw std::logic_error(fmt::format("{} made a plan that breaks the rule {}: {}", plan.strategy,
                                       name(violation->rule), violation->message));
  }
}

Planned nothing_planned(const Graph& graph, Bytes budget) {
  const KeepAll reference = keep_all_reference(graph);
  Planned planned;
  planned.budget_bytes = budget;
  planned.keep_all_cost = reference.cost;
  planned.keep_all_peak_bytes = reference.peak_bytes;
  return planned;
}

std::string in_full(Bytes bytes) {
  return fmt::format("{} ({} bytes)", format_bytes(bytes), bytes);
}

}  // namespace lowtide::planner
