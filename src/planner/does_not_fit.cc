#include "planner/does_not_fit.h"

#include <fmt/format.h>

#include "bounds/budget_floor.h"

namespace lowtide::planner {
namespace {

/// A share or an amount without its unit reads as a few bytes.
std::string slip(Bytes budget) {
  if (budget > 100) return {};
  return fmt::format(
      " The budget is {0} bytes. Did you mean {0}%? Or {0}GiB, where only bytes make sense?",
      budget);
}

}  // namespace

DoesNotFit::DoesNotFit(const Graph& graph, const Planned& planned)
    : InfeasibleError(planned.message + slip(planned.budget_bytes + planned.reserved_bytes)),
      smallest_budget_bytes(planned.smallest_budget),
      floor_bytes((planned.floor_bytes ? *planned.floor_bytes : bounds::budget_floor(graph)) +
                  planned.reserved_bytes) {
  if (smallest_budget_bytes) *smallest_budget_bytes += planned.reserved_bytes;
}

DoesNotFit::DoesNotFit(const DoesNotFit& refusal, std::string_view way)
    : InfeasibleError(fmt::format("{} {}", refusal.what(), way)),
      smallest_budget_bytes(refusal.smallest_budget_bytes),
      floor_bytes(refusal.floor_bytes) {}

}  // namespace lowtide::planner
