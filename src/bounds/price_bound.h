#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "base/control.h"
#include "bounds/alike.h"
#include "bounds/cluster.h"

namespace lowtide::bounds {

/// A lower bound on the cost of any plan within a budget whose first runs keep the order of the
/// graph, by Lagrangian relaxation: memory gets a price while each stage's op first runs, and
/// clusters of neighbouring stages (bounds/cluster.h) decide each for itself what to hold
/// and what to run again. The value is a bound at any prices; a subgradient method raises it.
///
/// It holds for every reading of the rules: an output may lie over a dying input wherever the graph
/// allows it, views run again for free, and tiny values are held for free.
class PriceBound {
 public:
  PriceBound(const remat::StageGraph& graph, Bytes budget);
  /// Prices memory only at some stages (one flag per stage).
  PriceBound(const remat::StageGraph& graph, Bytes budget, std::vector<bool> priced);

  /// Continues from prices per stage that were good for a similar problem.
  void start_from(std::vector<double> prices);

  /// Groups stages into new clusters of at most `cluster_values` values, after gluing ops
  /// (bounds/contraction.h), and cuts where little is lost at the current prices; then raises the
  /// bound. `work` is the number of subsets to visit, which bounds the time. Clusters get smaller
  /// when it is too little for a few rounds.
  void raise(int cluster_values, Gluing gluing, double work, const Control& control);

  /// No plan within the budget costs less. At least StageGraph::required_cost().
  double value() const;
  /// Whether start_from() gave prices, and nothing better is known yet.
  bool has_start() const { return start_.has_value(); }
  /// Whether no plan is within the budget: some op's own needs exceed it.
  bool infeasible() const { return infeasible_; }
  /// A lower bound on the cost of any plan, whatever the budget.
  double required_cost() const { return graph_.required_cost(); }
  const remat::Prices& prices() const { return best_prices_; }
  /// Per stage: bytes that the budget leaves, while its op first runs, for values that this op
  /// neither reads nor makes. The price is per byte of such values beyond this room.
  const std::vector<double>& room() const { return room_; }
  /// The clusters of the best bound.
  std::vector<std::vector<BoundOp>> clusters() const;
  /// Values whose makers run again only together with their reader: see Contraction.
  const std::vector<int>& glued() const { return best_grouping_->contraction.glued; }

  /// The holds of a solution at `factor` times the prices, apart from the own needs of stages;
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

  /// A cluster's least cost, and per span the bytes that it holds beyond the needs of stages.
  struct Solved {
    double cost;
    std::vector<double> held;
  };

  void fill_room(Bytes budget);
  void decide();
  std::vector<double> crossing_loss() const;
  void group(int cluster_values, Gluing gluing);
  double spent() const { return table_.work() + other_work_; }
  const remat::Prices& latest_prices() const { return start_ ? *start_ : best_prices_; }
  Solved solve(const Cluster& cluster, const remat::Prices& prices) const;
  double work_of_copies(const Kinds& kinds) const;
  double work_of_round() const;
  void choose_active(const std::vector<double>& price, const std::vector<double>& slope);
  double evaluate(const std::vector<double>& price, std::vector<double>& slope) const;

  const remat::StageGraph& graph_;
  std::vector<bool> priced_;   // per stage
  std::vector<bool> decided_;  // per value
  std::vector<double> room_;   // per stage: bytes for values that its op neither reads nor makes
  std::vector<char> active_;   // per stage: whether its price may change
  std::size_t parts_ = 32;     // number of parts when stages are many; one candidate each
  std::shared_ptr<const Grouping> grouping_;
  std::vector<Cluster> clusters_;
  mutable SubsetTable table_;
  mutable double other_work_ = 0;  // per stage and hold
  remat::Prices best_prices_;
  std::shared_ptr<const Grouping> best_grouping_;
  double best_;
  std::optional<remat::Prices> start_;  // used until better prices are known
  bool infeasible_ = false;
};

/// Raises a bound step by step, with clusters of several sizes, small ones first: their prices show
/// where to cut the larger ones. No size or kind of gluing is always better, so each of the larger
/// sizes continues while it pays. A bound that has a start begins with large ones.
class BoundSteps {
 public:
  /// `work`: for each size, usually.
  BoundSteps(PriceBound& bound, double work);
  /// One more step, in a share of the time that `part` leaves, and a report; false when no step is
  /// left.
  bool next(const Control& listener, const Control& part);

 private:
  PriceBound& bound_;
  double work_;
  std::size_t size_;
  int repeats_ = 0;
};

/// All steps, until `part` says to stop.
void raise_in_rounds(PriceBound& bound, double work, const Control& listener, const Control& part);

}  // namespace lowtide::bounds
