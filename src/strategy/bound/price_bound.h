#pragma once

#include <memory>
#include <vector>

#include "base/control.h"
#include "strategy/bound/cluster.h"

namespace lowtide {

/// A lower bound on the cost of any plan within a budget whose first runs keep the order of the
/// graph, by Lagrangian relaxation: memory gets a price while each stage's op first runs, and
/// clusters of neighbouring stages (strategy/bound/cluster.h) decide each for itself what to hold
/// and what to run again. The value is a bound at any prices; a subgradient method raises it.
///
/// It holds for every reading of the rules: an output may lie over an input that dies wherever the
/// graph allows it, views are free to run again, and what is tiny is held for nothing.
class PriceBound {
 public:
  PriceBound(const StageGraph& graph, Bytes budget);

  /// Groups stages anew into clusters of at most `cluster_values` values, after gluing ops together
  /// (strategy/bound/contraction.h), where the current prices say that little is lost between
  /// clusters, then raises the bound. `work` is the number of subsets to look at, which bounds the
  /// time: clusters are smaller where it would not do for a few rounds.
  void raise(int cluster_values, Gluing gluing, double work, const Control& control);

  /// No plan within the budget costs less. At least StageGraph::required_cost().
  double value() const;
  /// No plan at all is within the budget: some op's own needs exceed it.
  bool infeasible() const { return infeasible_; }
  /// What any plan costs at least, whatever the budget.
  double required_cost() const { return graph_.required_cost(); }
  const Prices& prices() const { return best_prices_; }
  /// Per stage: bytes that the budget leaves, while its op first runs, for values that this op
  /// neither reads nor makes. A price is of what is held beside less this room.
  const std::vector<double>& room() const { return room_; }
  /// The clusters that had the value at these prices.
  std::vector<std::vector<BoundOp>> clusters() const;
  /// Values whose makers run again only together with their reader: see Contraction.
  const std::vector<int>& glued() const { return best_grouping_->contraction.glued; }

  /// What a solution at `factor` times the prices holds beside what stages need in any case;
  /// values not in `decided` are held throughout.
  struct Solution {
    std::vector<Hold> holds;
    std::vector<bool> decided;  ///< per value
  };
  Solution solution(double factor) const;

 private:
  struct Grouping {
    Contraction contraction;
    std::vector<int> cuts;  ///< per cluster: index of its first op among the contracted ones
  };

  void fill_room(Bytes budget);
  void decide();
  std::vector<double> crossing_loss() const;
  void group(int cluster_values, Gluing gluing);
  double work_of_round() const;
  double evaluate(const std::vector<double>& price, std::vector<double>& slope) const;

  const StageGraph& graph_;
  std::vector<bool> decided_;  // per value
  std::vector<double> room_;   // per stage: bytes for values that its op neither reads nor makes
  std::shared_ptr<const Grouping> grouping_;
  std::vector<Cluster> clusters_;
  mutable Cluster::Scratch scratch_;
  Prices best_prices_;
  std::shared_ptr<const Grouping> best_grouping_;
  double best_;
  bool infeasible_ = false;
};

/// Raises the bound with clusters of several sizes, `work` for each, and reports after each. `part`
/// says when to stop.
void raise_in_rounds(PriceBound& bound, double work, const Control& listener, const Control& part);

}  // namespace lowtide
