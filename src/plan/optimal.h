#pragma once

#include "plan/plan.h"

namespace lowtide {

/// Whether a bound proves that nothing costs less. It may be a sum in another order, or rounded
/// down.
inline bool is_least(double cost, double bound) { return cost <= bound * (1 + 1e-8); }

/// Whether the plan's bound proves that no plan under its model within the budget costs less.
inline bool is_optimal(const Plan& plan) {
  return plan.lower_bound && is_least(plan.cost, *plan.lower_bound);
}

}  // namespace lowtide
