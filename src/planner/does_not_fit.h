#pragma once

#include <optional>

#include "base/error.h"
#include "planner/planner.h"

namespace lowtide::planner {

/// No plan fits. what() names the smallest budget known to do, and what takes it.
class DoesNotFit : public InfeasibleError {
 public:
  /// `reserved_bytes`: of the budget, what the plan could not have; all budgets include it.
  DoesNotFit(const Graph& graph, const Planned& planned, Bytes reserved_bytes = 0);

  std::optional<Bytes> smallest_budget_bytes;  ///< that the strategy reaches
  Bytes floor_bytes;                           ///< that any plan needs
};

}  // namespace lowtide::planner
