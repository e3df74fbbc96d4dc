#pragma once

#include <random>
#include <span>
#include <vector>

#include "remat/moves.h"
#include "strategy/intervals/branch_and_bound.h"

namespace lowtide::strategy::intervals {

/// Where ops may begin another interval to some purpose, as the plan is: in the stages in which
/// what they make is read, or would be if those of `ops` that read it ran again where they may; of
/// many, the last ones. None for ops not in `ops`, which ascend.
Starts starts_at_uses(const remat::StageGraph& graph, const remat::EventPlan& plan,
                      std::span<const int> ops);

/// Draws ops whose intervals are decided anew together, while those of all others stay (large
/// neighbourhood search: Shaw, Using constraint programming and local search methods to solve
/// vehicle routing problems, CP 1998).
class Neighbourhoods {
 public:
  Neighbourhoods(const remat::StageGraph& graph, std::uint64_t seed);

  /// Up to some twenty ops, ascending: a stretch of the graph, ops around one of those that run
  /// again, or makers of values that are needed on both sides of a stage: one that is above the
  /// limit, if any is.
  std::vector<int> draw(const remat::EventPlan& plan);

 private:
  int pick(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }
  void add_stretch(std::vector<int>& ops, std::size_t size);
  void add_around(const remat::EventPlan& plan, std::vector<int>& ops, std::size_t size);
  void add_across(const remat::EventPlan& plan, std::vector<int>& ops, std::size_t size);

  const remat::StageGraph& graph_;
  std::vector<int> values_;  // that may be dropped
  std::mt19937_64 random_;
};

}  // namespace lowtide::strategy::intervals
