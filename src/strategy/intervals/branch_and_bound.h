#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/control.h"
#include "strategy/intervals/conflict.h"

namespace lowtide::strategy::intervals {

/// Per op: the stages in which it may begin another retention interval, ascending.
using Starts = std::vector<std::vector<int>>;

/// Every stage in which the op may run again.
Starts all_starts(const remat::StageGraph& graph);

/// What a branch and bound looks for, and for how long.
struct Effort {
  double cost_below = 0;       ///< only plans that cost less
  std::int64_t conflicts = 0;  ///< to look at, at most: what takes the time
  bool first_only = false;     ///< ends with the first plan
  bool thorough = false;       ///< looks at every stage above the limit, not only at the worst
};

struct Branched {
  std::optional<std::vector<remat::Event>> events;  ///< of the cheapest plan found
  double cost = 0;
  bool complete = false;  ///< no plan that keeps the given events, and adds starts, costs less
  bool capped = false;    ///< the greatest number of intervals kept it from looking at some plans
};

/// Branch and bound over the retention intervals of Bartan et al. (Moccasin: Efficient tensor
/// rematerialization for neural networks, ICML 2023): a value is held from a run of its op to the
/// last use that reads what this run made, and has at most so many intervals.
///
/// A node is a plan and the starts that are still open to it. Where the plan is above the limit,
/// something that is live there must begin another interval before it is read next: one of a set of
/// starts, each of which is tried, and closed for those after it. Propagation: an op with all its
/// intervals has no open starts; a moment whose open starts do not free enough ends the node; what
/// they cost at least (a fractional knapsack) bounds it; and the set that is branched on leaves out
/// what is not enough alone.
class BranchAndBound {
 public:
  BranchAndBound(const remat::StageGraph& graph, int most_intervals)
      : graph_(graph), most_intervals_(most_intervals) {}

  /// Looks for reruns to add to the plan, which is as before in the end, from `starts`.
  Branched run(remat::EventPlan& plan, const Starts& starts, const Effort& effort,
               const Control& control);

 private:
  struct Way {
    WayOut out;
    std::vector<int> open;  // starts, as indices into those of the op
  };
  struct Choice {
    std::vector<Way> ways;      // of one of these an open start must be taken
    double least = 0;  // that it costs to mend the conflict
    std::size_t starts = 0;     // of all ways
  };

  void explore();
  void try_each(const Choice& choice);
  std::optional<Choice> choose();
  std::optional<Choice> choice_in(int stage);
  std::vector<Way> open_ways(const Conflict& conflict);
  double least_cost(std::vector<Way>& ways, Bytes missing) const;
  void leave_out(std::vector<Way>& ways, Bytes missing) const;
  bool is_too_dear(double cost) const;
  void remember();

  const remat::StageGraph& graph_;
  int most_intervals_;
  remat::EventPlan* plan_ = nullptr;
  const Starts* starts_ = nullptr;
  const Control* control_ = nullptr;
  Effort effort_;
  std::vector<std::vector<char>> closed_;  // as starts
  Branched found_;
  std::int64_t conflicts_ = 0;
  bool ended_ = false;
};

}  // namespace lowtide::strategy::intervals
