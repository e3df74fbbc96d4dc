#include "layout/layout.h"
#include "layout/plan_buffers.h"
#include "layout/solve.h"

namespace lowtide {

Layout assign_addresses(const Graph& graph, const Plan& plan, const PackingGoal& goal,
                        const Control& control) {
  const PlanBuffers needed = buffers_of(graph, plan);
  const auto within = [&](std::optional<Bytes> capacity) {
    const PackingGoal aligned{goal.alignment, capacity, goal.work};
    return layout_of(graph, plan, needed,
                     solve_packing(needed.buffers, aligned, control).packing.offsets);
  };
  if (!goal.capacity) return within(std::nullopt);
  // The packing counts whole units of alignment; what lies last may not fill its last one.
  const Bytes units = align_up(*goal.capacity, goal.alignment);
  const Bytes most = graph.resident_bytes() + *goal.capacity;
  Layout layout = within(units);
  const bool fills_last = layout.arena_bytes > most && layout.arena_bytes - most < goal.alignment;
  return fills_last ? within(units - goal.alignment) : layout;
}

}  // namespace lowtide
