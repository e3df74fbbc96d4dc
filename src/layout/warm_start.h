#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "layout/layout.h"
#include "layout/repair.h"

namespace lowtide::layout {

/// Addresses for plans that differ in few runs from one that has addresses. What such a plan needs
/// no longer than that one did stays where it was, and local search (packing/ejection_search.h)
/// finds room for the rest: where there is a hole, or else by moving others.
class WarmStart {
 public:
  /// From a valid plan with a layout. The graph must outlive this.
  WarmStart(const Graph& graph, const Plan& known);

  /// Of another valid plan, within the goal's capacity, which must be given. No work when no layout
  /// is within it. Deterministic but for time limits.
  Repair layout_of(const Plan& plan, const packing::PackingGoal& goal,
                   const Control& control) const;

 private:
  /// When an op runs, in terms that plans with the same order of first runs share: how many ops
  /// have run by then, and its own place among these.
  struct Moment {
    std::int32_t ops = 0, place = -1;
    auto operator<=>(const Moment&) const = default;
  };
  /// What some run begins, and until when it is needed.
  struct Life {
    Moment begin;
    Placement what;  ///< with its offset in the known layout
    Moment last;
    std::int32_t buffer;
  };

  Bytes border_within(const Plan& plan, const packing::PackingGoal& goal) const;
  std::vector<Moment> moments_of(const Plan& plan) const;
  std::vector<Life> lives_of(const Plan& plan, const PlanBuffers& needed) const;
  std::vector<Bytes> kept_offsets(const Plan& plan, const PlanBuffers& needed) const;

  const Graph* graph_;
  std::vector<Life> known_;
  std::vector<Bytes> borders_;  // of the known layout
};

}  // namespace lowtide::layout
