#pragma once

#include <optional>
#include <string_view>

#include "base/error.h"
#include "planner/planner.h"

namespace lowtide::planner {

/// No plan fits. what() names the smallest budget known to do, and what takes it.
class DoesNotFit : public InfeasibleError {
 public:
  /// All budgets include `planned.reserved_bytes`.
  DoesNotFit(const Graph& graph, const Planned& planned);
  /// The same, with a sentence about one more way to need less.
  DoesNotFit(const DoesNotFit& refusal, std::string_view way);

  std::optional<Bytes> smallest_budget_bytes;  ///< that the strategy reaches
  Bytes floor_bytes;                           ///< that any plan needs
};

}  // namespace lowtide::planner
