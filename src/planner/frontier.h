#pragma once

#include <vector>

#include "planner/planner.h"

namespace lowtide::planner {

/// Cost against budget, from keep-all's peak down to the smallest budget that a strategy reaches.
struct Frontier {
  /// Budgets descending; each has a plan within its budget. A smaller budget never has a smaller
  /// cost or a smaller lower bound.
  std::vector<Planned> points;
  /// The smallest budget within which a plan was found: that of the last point.
  std::optional<Bytes> smallest_budget;
  /// No plan needs less (bounds/budget_floor.h).
  Bytes floor_bytes = 0;
  /// Whether Ctrl-C ended it before all points were planned.
  bool stopped = false;
};

/// Plans within `points` budgets (at least 2), evenly spaced. A time limit of `control` is shared
/// among them. A plan for a smaller budget is also one for a larger, and a bound for a larger
/// budget is also one for a smaller: so the curve is monotone. Errors as for plan_within().
Frontier frontier(const Graph& graph, const strategy::Strategy& strategy, int points,
                  const strategy::GivenOptions& options, Control& control);

}  // namespace lowtide::planner
