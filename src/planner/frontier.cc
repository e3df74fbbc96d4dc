#include "planner/frontier.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "base/time_share.h"
#include "bounds/budget_floor.h"
#include "plan/optimal.h"
#include "planner/known_plans.h"
#include "planner/resolve.h"

namespace lowtide::planner {
namespace {

class Walk {
 public:
  Walk(const Graph& graph, const strategy::Strategy& strategy, int points,
       const strategy::GivenOptions& options, Control& control)
      : graph_(graph), strategy_(strategy), options_(options), control_(control), left_(points) {}

  Frontier run() {
    const Bytes most = resolve({Budget::Share{100}}, graph_);
    found_.floor_bytes = bounds::budget_floor(graph_);
    add(smallest());
    const Bytes low =
        found_.points.empty() ? found_.floor_bytes : found_.points.front().budget_bytes;
    for (Bytes budget : budgets_above(low, most)) {
      if (!Control::stop_requested()) add(plan(budget, 1.0 / left_));
    }
    found_.stopped = Control::stop_requested();
    sort_and_straighten();
    return std::move(found_);
  }

 private:
  /// Evenly spaced, descending, each once.
  std::vector<Bytes> budgets_above(Bytes low, Bytes most) const {
    std::vector<Bytes> budgets;
    for (int i = left_; i > 0; --i) {
      const double share = static_cast<double>(i) / left_;
      const Bytes budget = low + static_cast<Bytes>(share * static_cast<double>(most - low));
      if (budget > low && (budgets.empty() || budget < budgets.back())) budgets.push_back(budget);
    }
    return budgets;
  }

  /// The plan that needs the fewest bytes, with these as its budget.
  Planned smallest() {
    Planned planned = plan(found_.floor_bytes, 0.3);
    if (planned.plan || !planned.smallest_budget) return planned;
    return plan(*planned.smallest_budget, 0.3);
  }

  /// `share`: of the time that is left.
  Planned plan(Bytes budget, double share) {
    control_.report(fmt::format("{} within {} ...", strategy_.name, format_bytes(budget)));
    Control part = share_of_time(control_, share);
    return plan_within(graph_, strategy_, budget, options_, part);
  }

  void add(Planned planned) {
    --left_;
    if (planned.plan) found_.points.push_back(std::move(planned));
  }

  void sort_and_straighten() {
    std::vector<Planned>& points = found_.points;
    if (points.empty()) return;
    std::ranges::sort(points, std::ranges::greater(), &Planned::budget_bytes);
    found_.smallest_budget = points.back().budget_bytes;
    for (std::size_t i = points.size() - 1; i > 0; --i) take_plan(points[i], points[i - 1]);
    for (std::size_t i = 1; i < points.size(); ++i) take_bound(points[i - 1], points[i]);
  }

  /// What costs so much within more costs so much within less.
  static void take_bound(const Planned& more, Planned& less) {
    Plan& plan = *less.plan;
    if (!may_bound(more.plan->lower_bound, plan)) return;
    if (plan.lower_bound.value_or(0) < *more.plan->lower_bound) {
      plan.lower_bound = more.plan->lower_bound;
      plan.model = more.plan->model;
    }
    if (is_optimal(plan)) less.outcome = strategy::Outcome::optimal;
  }

  const Graph& graph_;
  const strategy::Strategy& strategy_;
  const strategy::GivenOptions& options_;
  Control& control_;
  int left_;  // points still to plan
  Frontier found_;
};

}  // namespace

Frontier frontier(const Graph& graph, const strategy::Strategy& strategy, int points,
                  const strategy::GivenOptions& options, Control& control) {
  if (points < 2) throw std::logic_error("a frontier has at least two points");
  return Walk(graph, strategy, points, options, control).run();
}

}  // namespace lowtide::planner
