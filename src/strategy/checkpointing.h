#pragma once

#include <functional>
#include <string>
#include <vector>

#include "remat/stage_graph.h"
#include "strategy/strategy.h"

namespace lowtide::strategy {

/// Checkpointing: the forward pass keeps some values, the backward pass makes the others again
/// when it first needs them, and each then stays until its last use.

/// The first stage after the forward pass: the first whose phase is not forward, or, in a graph
/// that marks no phases, the stage after the one at which keep-all peaks.
int forward_end(const remat::StageGraph& graph);

/// Which values the forward pass keeps, and what is made again together: when one value of a group
/// is missing, all that the backward pass still needs of its group are made.
struct Checkpoints {
  std::vector<bool> kept;   ///< per value
  std::vector<int> group;   ///< per stage, a number below that of stages
};

/// Each stage a group of its own: values are made again one by one.
std::vector<int> lone_groups(const remat::StageGraph& graph);

/// `kept` and what must be kept besides: values that no op may make again by the time they are
/// needed, graph outputs, and whatever is made after the forward pass.
std::vector<bool> kept_in_any_case(const remat::StageGraph& graph, int forward_end,
                                   std::vector<bool> kept);

/// The order of executions.
std::vector<OpId> checkpointed_order(const remat::StageGraph& graph, int forward_end,
                                     Checkpoints chosen);

/// Per stage: bytes of values made after the forward pass that are live while it runs, those that
/// it makes included.
std::vector<Bytes> late_bytes(const remat::StageGraph& graph, int forward_end);

/// Of all outputs of the stage.
Bytes output_bytes(const remat::StageGraph& graph, int stage);

/// Per stage: whether it is in the forward pass, makes something, and is of a type that is cheap
/// for its bytes; of an unknown type, costs no more per byte than the median of the forward pass.
std::vector<bool> cheap_stages(const Graph& graph, const remat::StageGraph& stages,
                               int forward_end);

/// A position at which the forward pass can be cut: before the stage.
struct Cut {
  int stage = 0;
  Bytes crossing = 0;  ///< bytes of forward values made before and read by the forward pass after
  int large_crossing = 0;  ///< how many of them are not small beside the largest forward value
  int value = kNone;       ///< the large one, when it is the only one
};
/// Every position inside the forward pass, in order.
std::vector<Cut> forward_cuts(const remat::StageGraph& graph, int forward_end);
/// The articulation points: positions that a single value crosses, small ones aside; of neighbours
/// that the same value crosses, the first.
std::vector<Cut> articulation_cuts(const remat::StageGraph& graph, int forward_end);

/// The stages before which `count` segments of nearly equal length begin, the first aside.
std::vector<int> even_cuts(int forward_end, int count);

/// Cuts the forward pass before each of `cuts` (ascending). Values that cross a cut inside the
/// forward pass are kept; so is all of the last segment, since the backward pass begins there.
Checkpoints segmented(const remat::StageGraph& graph, int forward_end,
                      const std::vector<int>& cuts);

/// Collects candidate orders: keeps the cheapest that fits the budget, and knows the leanest.
class Trials {
 public:
  explicit Trials(const PlanRequest& request) : request_(request) {}

  /// Lowers and replays the order; returns its peak.
  Bytes offer(std::vector<OpId> executions);
  bool any_fits() const { return best_.outcome != Outcome::infeasible; }
  /// Feasible with the cheapest, or infeasible with the leanest's peak: as long as nothing fits,
  /// what a strategy tries should not depend on the budget, so that it reaches that peak when asked
  /// for it. `how` describes the plans tried, for the message: "sqrt(n) segments".
  Decision decision(const std::string& how) const;
  /// The same after an early end: what fits so far, else stopped.
  Decision stopped() const;

 private:
  const PlanRequest& request_;
  Decision best_;
  double best_cost_ = 0;
  std::optional<Bytes> leanest_;
};

/// A graph whose forward pass can be cut where a single value crosses.
struct CutGraph {
  remat::StageGraph graph;
  int forward_end = 0;
  std::vector<Cut> points = {};  ///< its articulation points
};
CutGraph cut_graph(const Graph& graph);

/// What strategies that cut at articulation points have in common: `decide` is given the points
/// and trials in which keep-all is one. A graph without such points is run once, if that fits.
Decision decide_at_articulation_points(
    const PlanRequest& request, const std::function<Decision(const CutGraph&, Trials&)>& decide);

}  // namespace lowtide::strategy
