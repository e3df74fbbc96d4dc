#pragma once

#include <random>
#include <span>
#include <vector>

#include "remat/moves.h"
#include "strategy/intervals/branch_and_bound.h"

namespace lowtide::strategy::intervals {

/// The stages in which another interval of an op is useful in the plan: those that read its
/// outputs, or would read them if ops of `ops` ran again; of many, the last ones. Only for ops in
/// `ops`, which are in ascending order.
Starts starts_at_uses(const remat::StageGraph& graph, const remat::EventPlan& plan,
                      std::span<const int> ops);

/// Draws ops whose intervals are decided again together, while all others stay (large neighbourhood
/// search: Shaw, Using constraint programming and local search methods to solve vehicle routing
/// problems, CP 1998).
class Neighbourhoods {
 public:
  Neighbourhoods(const remat::StageGraph& graph, std::uint64_t seed);

  /// About twenty ops at most, ascending: a range of the graph, ops around a rerun op, or
  /// makers of values that are needed before and after a stage, if possible one above the
  /// limit.
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
