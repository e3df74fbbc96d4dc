#include "planner/resolve.h"

#include <algorithm>

#include "plan/lower.h"
#include "planner/realize.h"

namespace lowtide::planner {

Bytes resolve(const Budget& budget, const Graph& graph) {
  Plan plan = keep_all(graph);
  const Bytes peak = plan.peak_bytes;
  const Bytes bytes = budget.resolve(peak);
  if (!std::holds_alternative<Budget::Share>(budget.value) || bytes < peak) return bytes;
  return std::max(bytes, with_addresses(graph, std::move(plan), bytes).layout->arena_bytes);
}

}  // namespace lowtide::planner
