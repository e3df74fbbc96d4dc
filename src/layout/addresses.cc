#include <algorithm>

#include "layout/layout.h"
#include "layout/plan_buffers.h"
#include "layout/solve.h"

namespace lowtide {
namespace {

Layout layout_of(const Graph& graph, const Plan& plan, const PlanBuffers& needed,
                 const Packing& packing) {
  Layout layout{std::vector<std::vector<Placement>>(plan.actions.size()), graph.resident_bytes()};
  for (std::size_t i = 0; i < needed.buffers.size(); ++i) {
    const Buffer& buffer = needed.buffers[i];
    Placement placement = needed.first[i];
    placement.offset = packing.offsets[i];
    layout.placements[buffer.begin].push_back(placement);
    layout.arena_bytes = std::max(layout.arena_bytes,
                                  graph.resident_bytes() + placement.offset + buffer.bytes);
  }
  return layout;
}

}  // namespace

Layout assign_addresses(const Graph& graph, const Plan& plan, const PackingGoal& goal,
                        const Control& control) {
  const PlanBuffers needed = buffers_of(graph, plan);
  const auto within = [&](std::optional<Bytes> capacity) {
    const PackingGoal aligned{goal.alignment, capacity, goal.work};
    return layout_of(graph, plan, needed, solve_packing(needed.buffers, aligned, control).packing);
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
