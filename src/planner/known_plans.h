#pragma once

#include <mutex>
#include <vector>

#include "planner/planner.h"

namespace lowtide::planner {

/// Whether a bound can be one for this plan: one for plans in the graph's order says nothing of a
/// plan in another order that costs less.
bool may_bound(const std::optional<double>& bound, const Plan& plan);

/// `more` with the plan of `less` where that costs less: what is within less is within more. Both
/// have plans for one graph.
void take_plan(const Planned& less, Planned& more);

/// The plans that earlier searches found for one graph and strategy: so that no later answer is
/// worse than what is known, however its search went. For all threads.
class KnownPlans {
 public:
  /// Keeps the plans of an answer that no known one beats in cost and memory, and gives the answer
  /// with the cheapest plan that fits its budget.
  Planned best(Planned found);

 private:
  void keep(const Plan& plan);
  const Plan* cheapest(Bytes budget_bytes) const;

  std::mutex mutex_;
  std::vector<Plan> plans_;
};

}  // namespace lowtide::planner
