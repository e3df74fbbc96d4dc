#include "planner/known_plans.h"

#include <algorithm>
#include <utility>

#include "layout/sections.h"
#include "plan/optimal.h"

namespace lowtide::planner {
namespace {

/// Where a search found nothing, `found` has no bound.
void exchange_plan(Plan plan, Planned& found) {
  plan.budget_bytes = found.budget_bytes;
  plan.lower_bound = found.plan ? found.plan->lower_bound : std::nullopt;
  if (found.plan) plan.model = found.plan->model;
  if (!may_bound(plan.lower_bound, plan)) {
    plan.lower_bound.reset();
    found.certificate.reset();
  }
  found.outcome = is_optimal(plan) ? strategy::Outcome::optimal : strategy::Outcome::feasible;
  found.plan = std::move(plan);
}

}  // namespace

bool may_bound(const std::optional<double>& bound, const Plan& plan) {
  return bound && *bound <= plan.cost * (1 + 1e-9);
}

void take_plan(const Planned& less, Planned& more) {
  if (less.plan->cost < more.plan->cost) exchange_plan(*less.plan, more);
}

Planned KnownPlans::best(const Graph& graph, Planned found) {
  const std::lock_guard lock(mutex_);
  if (found.plan) keep(graph, *found.plan);
  if (found.smallest_plan) keep(graph, *found.smallest_plan);
  const Plan* known = cheapest(found.budget_bytes);
  if (known == nullptr || (found.plan && found.plan->cost <= known->cost)) return found;
  exchange_plan(*known, found);
  found.smallest_budget.reset();
  found.smallest_plan.reset();
  found.message.clear();
  found.why_not_less.clear();
  return found;
}

void KnownPlans::keep(const Graph& graph, const Plan& plan) {
  if (!plan.layout) return;
  const Known next{plan, layout::needed_bytes(graph, plan)};
  const auto beats = [](const Known& a, const Known& b) {
    return a.plan.cost <= b.plan.cost && a.needed_bytes <= b.needed_bytes;
  };
  if (std::ranges::any_of(plans_, [&](const Known& other) { return beats(other, next); })) return;
  std::erase_if(plans_, [&](const Known& other) { return beats(next, other); });
  plans_.push_back(next);
}

const Plan* KnownPlans::cheapest(Bytes budget_bytes) const {
  const Plan* best = nullptr;
  for (const auto& [plan, needed_bytes] : plans_) {
    if (needed_bytes > budget_bytes) continue;
    if (best == nullptr || plan.cost < best->cost) best = &plan;
  }
  return best;
}

}  // namespace lowtide::planner
