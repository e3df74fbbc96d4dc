#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "remat/stage_graph.h"
#include "strategy/strategy.h"

namespace lowtide::strategy {

/// Checkpointing: the forward pass keeps some values, the backward pass makes the others again when
/// it first needs them, and each then stays until its last use.

/// The first stage after the forward pass: the first whose phase is not forward, or, in a graph
/// that marks no phases, the stage after the one at which keep-all peaks.
int forward_end(const remat::StageGraph& graph);

/// The values that the forward pass keeps, and groups of stages. When one value of a group is
/// missing, all values of the group that the backward pass still needs are made again.
struct Checkpoints {
  std::vector<bool> kept;  ///< per value
  std::vector<int> group;  ///< per stage, a number below that of stages
};

/// One group for each stage: values are made again one by one.
std::vector<int> lone_groups(const remat::StageGraph& graph);

/// `kept` and the values that must be kept in addition: values that no op may make again by the
/// time they are needed, graph outputs, and values made after the forward pass.
std::vector<bool> kept_in_any_case(const remat::StageGraph& graph, int forward_end,
                                   std::vector<bool> kept);

/// The order of executions with these checkpoints.
std::vector<OpId> checkpointed_order(const remat::StageGraph& graph, int forward_end,
                                     Checkpoints chosen);

/// The order that keeps all forward values but the outputs of these stages, made one by one.
std::vector<OpId> order_without_outputs(const remat::StageGraph& graph, int forward_end,
                                        std::span<const int> stages);

/// Per stage: bytes of values made after the forward pass that are live while it runs, its own
/// outputs included.
std::vector<Bytes> late_bytes(const remat::StageGraph& graph, int forward_end);

/// Of all outputs of the stage.
Bytes output_bytes(const remat::StageGraph& graph, int stage);

/// These stages, each of which makes something, with the one first that makes most bytes per cost.
std::vector<int> most_bytes_per_cost_first(const remat::StageGraph& graph, std::vector<int> stages);

/// Per stage: whether it is in the forward pass, makes something, and is of a type that is cheap
/// for its bytes; an unknown type must cost at most the forward pass's median per byte.
std::vector<bool> cheap_stages(const Graph& graph, const remat::StageGraph& stages,
                               int forward_end);

/// A position at which the forward pass can be cut: before the stage.
struct Cut {
  int stage = 0;
  Bytes crossing = 0;  ///< bytes of forward values made before and read by the forward pass after
  int large_crossing = 0;  ///< those that are not small compared to the largest forward value
  int value = kNone;       ///< the large one, when it is the only one
};
/// Every position inside the forward pass, in order.
std::vector<Cut> forward_cuts(const remat::StageGraph& graph, int forward_end);
/// The articulation points: positions that only one value crosses, apart from small ones; if the
/// same value crosses neighbouring positions, the first of them.
std::vector<Cut> articulation_cuts(const remat::StageGraph& graph, int forward_end);

/// The stages before which `count` segments of nearly equal length begin, without the first.
std::vector<int> even_cuts(int forward_end, int count);

/// 1, 2, ... in steps that grow by an eighth, up to and including `most`: large counts differ
/// little from their neighbours.
std::vector<int> useful_counts(int most);

/// Cuts the forward pass before each of `cuts` (ascending). Values that cross a cut inside the
/// forward pass are kept; so is all of the last segment, since the backward pass begins there.
Checkpoints segmented(const remat::StageGraph& graph, int forward_end,
                      const std::vector<int>& cuts);

/// Collects candidate orders: keeps the cheapest that fits the budget, and the smallest peak.
class Trials {
 public:
  explicit Trials(const PlanRequest& request) : request_(request) {}

  /// Lowers and replays the order; returns its peak.
  Bytes offer(std::vector<OpId> executions);
  bool any_fits() const { return best_.outcome != Outcome::infeasible; }
  /// Feasible with the cheapest, or infeasible with the smallest peak. As long as nothing fits, the
  /// orders that a strategy tries must not depend on the budget: then a request for the reported
  /// peak reaches it. `how` describes the plans tried, for the message: "sqrt(n) segments".
  Decision decision(const std::string& how) const;
  /// The same after an early end: the cheapest that fits so far, else stopped.
  Decision stopped() const;

 private:
  const PlanRequest& request_;
  Decision best_;
  double best_cost_ = 0;
  std::optional<Bytes> smallest_;
  std::vector<OpId> smallest_executions_;
};

/// A graph whose forward pass can be cut where only one value crosses.
struct CutGraph {
  remat::StageGraph graph;
  int forward_end = 0;
  std::vector<Cut> points = {};  ///< its articulation points
};
CutGraph cut_graph(const Graph& graph);

/// The common frame of strategies that cut at articulation points: gives `decide` the points and
/// trials that already contain keep-all. Runs a graph without such points once, if that fits.
Decision decide_at_articulation_points(
    const PlanRequest& request, const std::function<Decision(const CutGraph&, Trials&)>& decide);

}  // namespace lowtide::strategy
