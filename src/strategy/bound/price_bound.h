#pragma once

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

  /// Groups stages anew into clusters of at most `cluster_values` values, where the current prices
  /// say that little is lost between clusters, then raises the bound. `work` is the number of
  /// subsets to look at, which bounds the time; always a few rounds.
  void raise(int cluster_values, double work, const Control& control);

  /// No plan within the budget costs less. At least StageGraph::required_cost().
  double value() const;
  /// No plan at all is within the budget: some op's own needs exceed it.
  bool infeasible() const { return infeasible_; }
  const Prices& prices() const { return best_prices_; }
  /// The clusters that had the value at these prices.
  std::vector<std::vector<BoundOp>> clusters() const;
  /// Values whose makers run again only together with their reader: see Contraction.
  const std::vector<int>& glued() const { return contraction_.glued; }

  /// What a solution at `factor` times the prices holds beside what stages need in any case;
  /// values not in `decided` are held throughout.
  struct Solution {
    std::vector<Hold> holds;
    std::vector<bool> decided;  ///< per value
  };
  Solution solution(double factor) const;

 private:
  void fill_room(Bytes budget);
  void decide(Bytes tiny);
  std::vector<double> crossing_loss() const;
  void group(int cluster_values);
  double evaluate(const std::vector<double>& price, std::vector<double>& slope) const;

  const StageGraph& graph_;
  std::vector<bool> decided_;  // per value
  Contraction contraction_;
  std::vector<double> room_;   // per stage: bytes for values that its op neither reads nor makes
  std::vector<int> cuts_;       // per cluster: index of its first op among the contracted ones
  std::vector<Cluster> clusters_;
  mutable Cluster::Scratch scratch_;
  Prices best_prices_;
  std::vector<int> best_cuts_;
  double best_;
  bool infeasible_ = false;
};

}  // namespace lowtide
