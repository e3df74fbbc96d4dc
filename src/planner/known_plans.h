#pragma once

#include <mutex>
#include <vector>

#include "planner/planner.h"

namespace lowtide::planner {

/// Whether a bound can hold for this plan. A bound on plans in the graph's order says nothing about
/// a cheaper plan in another order.
bool may_bound(const std::optional<double>& bound, const Plan& plan);

/// Gives `more` the plan of `less` if that is cheaper: a plan within a smaller budget is within a
/// larger one too. Both have plans for one graph.
void take_plan(const Planned& less, Planned& more);

/// The plans that earlier searches found for one graph and strategy. With them no later answer is
/// worse than a known plan, however its search went. Thread-safe.
class KnownPlans {
 public:
  /// Keeps the plans of an answer that no known one beats in cost and memory, and gives the answer
  /// with the cheapest plan that fits its budget.
  Planned best(const Graph& graph, Planned found);

 private:
  struct Known {
    Plan plan;
    Bytes needed_bytes;  ///< layout::needed_bytes()
  };

  void keep(const Graph& graph, const Plan& plan);
  const Plan* cheapest(Bytes budget_bytes) const;

  std::mutex mutex_;
  std::vector<Known> plans_;
};

}  // namespace lowtide::planner
