#include <algorithm>
#include <span>
#include <utility>

#include "layout/layout.h"
#include "layout/repair.h"
#include "layout/sections.h"
#include "packing/solve.h"
#include "plan/residents.h"

namespace lowtide::layout {
namespace {

/// Most borders tried by local search from the packing without a border, and work per
/// buffer.
constexpr std::size_t kBorders = 8;
constexpr std::int64_t kPatience = 4000;

class Addresses {
 public:
  Addresses(const Graph& graph, const Plan& plan, const packing::PackingGoal& goal,
            const Control& control)
      : graph_(graph), plan_(plan), goal_(goal), control_(control) {}

  Layout assign() const {
    const SectionedBuffers whole(graph_, plan_, goal_.alignment);
    const std::vector<Bytes> offsets = packed(whole);
    Layout layout = whole.layout(offsets);
    const bool needs_border = whole.has_outputs() && goal_.capacity && fits(layout);
    if (!needs_border) return layout;
    return divided(whole, whole.without_walls(offsets), capacity_after(layout));
  }

 private:
  Bytes most() const { return staying_bytes(graph_, plan_) + *goal_.capacity; }
  /// Of the bytes that are left to what follows the step. A plan whose residents come back then is
  /// also used within smaller budgets that its arena fits, so that these count.
  Bytes capacity_after(const Layout& layout) const {
    const Bytes staying = staying_bytes(graph_, plan_);
    const bool come_back = staying < graph_.resident_bytes();
    return come_back ? std::min(*goal_.capacity, layout.arena_bytes - staying) : *goal_.capacity;
  }
  bool fits(const Layout& layout) const { return layout.arena_bytes <= most(); }

  std::vector<Bytes> packed(const SectionedBuffers& needed) const {
    if (!goal_.capacity) return packed_within(needed, std::nullopt);
    // The packing counts whole units of alignment; the last buffer may not fill its last unit.
    const Bytes units = align_up(*goal_.capacity, goal_.alignment) + needed.wall_bytes();
    std::vector<Bytes> offsets = packed_within(needed, units);
    const Layout layout = needed.layout(offsets);
    const bool fills_last = !fits(layout) && layout.arena_bytes - most() < goal_.alignment;
    return fills_last ? packed_within(needed, units - goal_.alignment) : offsets;
  }

  std::vector<Bytes> packed_within(const SectionedBuffers& needed,
                                   std::optional<Bytes> capacity) const {
    const packing::PackingGoal goal{goal_.alignment, capacity, goal_.work};
    return packing::solve_packing(needed.buffers(), goal, control_).packing.offsets;
  }

  /// Adds a border to offsets that fit the arena: one that leaves the bytes after the step free if
  /// possible, else the closest one.
  Layout divided(const SectionedBuffers& whole, const std::vector<Bytes>& offsets,
                 Bytes capacity_after) const {
    const std::vector<Bytes> borders =
        borders_by_promise(whole, offsets, goal_.alignment, whole.highest_border(capacity_after));
    const auto items = static_cast<std::int64_t>(offsets.size());
    const packing::PackingGoal quick{goal_.alignment, goal_.capacity,
                                     std::min(goal_.work, kPatience * items)};
    for (std::size_t i = 0; i < std::min(kBorders, borders.size()); ++i) {
      const SectionedBuffers two(graph_, plan_, goal_.alignment, borders[i]);
      if (auto repair = repaired(two, offsets, quick, control_); repair.layout) {
        return std::move(*repair.layout);
      }
    }
    const SectionedBuffers two(graph_, plan_, goal_.alignment, borders.front());
    return two.layout(packed(two));
  }

  const Graph& graph_;
  const Plan& plan_;
  const packing::PackingGoal& goal_;
  const Control& control_;
};

}  // namespace

Layout assign_addresses(const Graph& graph, const Plan& plan, const packing::PackingGoal& goal,
                        const Control& control) {
  return Addresses(graph, plan, goal, control).assign();
}

}  // namespace lowtide::layout
