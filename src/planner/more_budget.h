#pragma once

#include <optional>
#include <string>

#include "planner/planner.h"

namespace lowtide::planner {

/// The cost per step that a larger budget would save, in the graph's unit.
struct MoreBudget {
  Bytes extra_bytes = 0;
  /// No plan within the larger budget costs less than the given one by more than this. Nothing
  /// when no bound is known.
  std::optional<double> saves_at_most;
  std::optional<double> saves;  ///< by a plan that was found within the larger budget
};

/// A GiB, or a tenth of a budget of less than ten.
Bytes worth_asking_for(Bytes budget);

/// From the prices of the plan's certificate, at once: each byte of budget lowers the bound by no
/// more than their sum, and every plan runs each needed op once. `planned` has a plan.
MoreBudget bound_with_more(const Graph& graph, const Planned& planned, Bytes extra_bytes);

/// The same, and plans within the larger budget, in at most the time that `control` gives.
MoreBudget plan_with_more(const Graph& graph, const strategy::Strategy& strategy,
                          const Planned& planned, Bytes extra_bytes,
                          const strategy::GivenOptions& options, Control& control);

/// For people, one line.
std::string format_more(const MoreBudget& more, const Planned& planned);

}  // namespace lowtide::planner
