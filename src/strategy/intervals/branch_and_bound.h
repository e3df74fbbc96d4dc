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

/// The goal of a branch and bound, and its effort.
struct Effort {
  double cost_below = 0;       ///< only plans that cost less
  std::int64_t conflicts = 0;  ///< limit on examined conflicts, which bounds the time
  bool first_only = false;     ///< stops at the first plan
  bool thorough = false;       ///< examines every stage above the limit, not only the worst
};

struct Branched {
  std::optional<std::vector<remat::Event>> events;  ///< of the cheapest plan found
  double cost = 0;
  bool complete = false;  ///< no plan with the given events and additional starts costs less
  bool capped = false;    ///< the limit on intervals excluded some plans
};

/// Branch and bound over the retention intervals of Bartan et al. (Moccasin: Efficient tensor
/// rematerialization for neural networks, ICML 2023): a value is held from a run of its op to the
/// last use of that run's output. A value has a limited number of intervals.
///
/// A node is a plan and the starts that are still open to it. Where the plan is above the limit,
/// some live value must begin another interval before its next use. That gives a set of starts;
/// each is tried, and then closed for the later ones. Propagation: an op with all its intervals has
/// no open starts; a moment whose open starts free too little ends the node; the least cost of
/// these starts (a fractional knapsack) is a bound; and starts that would be too few alone are left
/// out of the set to branch on.
class BranchAndBound {
 public:
  BranchAndBound(const remat::StageGraph& graph, int most_intervals)
      : graph_(graph), most_intervals_(most_intervals) {}

  /// Looks for reruns from `starts` to add to the plan; restores the plan in the end.
  Branched run(remat::EventPlan& plan, const Starts& starts, const Effort& effort,
               const Control& control);

 private:
  struct Way {
    WayOut out;
    std::vector<int> open;  // starts, as indices into those of the op
  };
  struct Choice {
    std::vector<Way> ways;   // the plan needs an open start of one of these
    double least = 0;        // lower bound on the cost to resolve the conflict
    std::size_t starts = 0;  // of all ways
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
