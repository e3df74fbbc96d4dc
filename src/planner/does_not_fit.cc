#include "planner/does_not_fit.h"

#include <fmt/format.h>

#include "bounds/budget_floor.h"

namespace lowtide::planner {
namespace {

/// A share without its sign reads as a few bytes.
std::string slip(Bytes budget) {
  if (budget > 100) return {};
  return fmt::format(" The budget is {} bytes. Did you mean {}%?", budget, budget);
}

std::string why_not(const Planned& planned, Bytes reserved_bytes) {
  if (reserved_bytes == 0) return planned.message + slip(planned.budget_bytes);
  return fmt::format(
      "{} Of the budget of {}, {} are kept for states of the random generator and the reserve.",
      planned.message, format_bytes(planned.budget_bytes + reserved_bytes),
      format_bytes(reserved_bytes));
}

}  // namespace

DoesNotFit::DoesNotFit(const Graph& graph, const Planned& planned, Bytes reserved_bytes)
    : InfeasibleError(why_not(planned, reserved_bytes)),
      smallest_budget_bytes(planned.smallest_budget),
      floor_bytes(bounds::budget_floor(graph) + reserved_bytes) {
  if (smallest_budget_bytes) *smallest_budget_bytes += reserved_bytes;
}

}  // namespace lowtide::planner
