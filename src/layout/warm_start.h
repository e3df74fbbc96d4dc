#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "layout/layout.h"
#include "layout/repair.h"

namespace lowtide::layout {

/// Addresses for plans that differ in few runs from a plan with addresses. Buffers that live no
/// longer than in the known plan keep their offset; local search (packing/ejection_search.h) places
/// the rest, in holes or by moving other buffers.
class WarmStart {
 public:
  /// `known` is a valid plan with a layout. The graph must outlive this.
  WarmStart(const Graph& graph, const Plan& known);

  /// The layout of another valid plan. Precondition: the goal has a capacity. No work when no
  /// layout fits the capacity. Deterministic except for time limits.
  Repair layout_of(const Plan& plan, const packing::PackingGoal& goal,
                   const Control& control) const;

 private:
  /// The time of a run, comparable between plans with the same order of first runs: the number of
  /// ops that have run before, and the op's place among them.
  struct Moment {
    std::int32_t ops = 0, place = -1;
    auto operator<=>(const Moment&) const = default;
  };
  /// A buffer that a run begins, and its last moment.
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
