#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "base/control.h"
#include "bounds/cluster.h"

namespace lowtide::bounds {

/// A lower bound on the cost of any plan within a budget whose first runs keep the order of the
/// graph, by Lagrangian relaxation: memory gets a price while each stage's op first runs, and
/// clusters of neighbouring stages (bounds/cluster.h) decide each for itself what to hold
/// and what to run again. The value is a bound at any prices; a subgradient method raises it.
///
/// It holds for every reading of the rules: an output may lie over an input that dies wherever the
/// graph allows it, views are free to run again, and what is tiny is held for nothing.
class PriceBound {
 public:
  PriceBound(const remat::StageGraph& graph, Bytes budget);
  /// With memory priced at some stages alone (one flag per stage); no stage else is looked at.
  PriceBound(const remat::StageGraph& graph, Bytes budget, std::vector<bool> priced);

  /// Goes on from prices per stage that were good for nearly the same.
  void start_from(std::vector<double> prices);

  /// Groups stages anew into clusters of at most `cluster_values` values, after gluing ops together
  /// (bounds/contraction.h), where the current prices say that little is lost between
  /// clusters, then raises the bound. `work` is the number of subsets to look at, which bounds the
  /// time: clusters are smaller where it would not do for a few rounds.
  void raise(int cluster_values, Gluing gluing, double work, const Control& control);

  /// No plan within the budget costs less. At least StageGraph::required_cost().
  double value() const;
  /// Whether prices were given, and nothing better is known yet.
  bool has_start() const { return start_.has_value(); }
  /// No plan at all is within the budget: some op's own needs exceed it.
  bool infeasible() const { return infeasible_; }
  /// What any plan costs at least, whatever the budget.
  double required_cost() const { return graph_.required_cost(); }
  const remat::Prices& prices() const { return best_prices_; }
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
  double spent() const { return table_.work() + other_work_; }
  const remat::Prices& latest_prices() const { return start_ ? *start_ : best_prices_; }
  double work_of_round() const;
  void choose_active(const std::vector<double>& price, const std::vector<double>& slope);
  double evaluate(const std::vector<double>& price, std::vector<double>& slope) const;

  const remat::StageGraph& graph_;
  std::vector<bool> priced_;   // per stage
  std::vector<bool> decided_;  // per value
  std::vector<double> room_;   // per stage: bytes for values that its op neither reads nor makes
  std::vector<char> active_;   // per stage: whether its price may change
  std::size_t parts_ = 32;     // of the stages, when they are many, that are looked at one by one
  std::shared_ptr<const Grouping> grouping_;
  std::vector<Cluster> clusters_;
  mutable SubsetTable table_;
  mutable double other_work_ = 0;  // per stage and hold
  remat::Prices best_prices_;
  std::shared_ptr<const Grouping> best_grouping_;
  double best_;
  std::optional<remat::Prices> start_;  // given, until there are better ones
  bool infeasible_ = false;
};

/// Raises a bound step by step, with clusters of several sizes, small ones first: their prices tell
/// the larger ones where to cut. Neither larger ones nor either kind of gluing are always better, so
/// each of the larger goes on while it pays. A bound that has a start begins with large ones.
class BoundSteps {
 public:
  /// `work` for each size, in general.
  BoundSteps(PriceBound& bound, double work);
  /// One more step, in a share of the time that `part` leaves, and a report; false when there is
  /// none left to take.
  bool next(const Control& listener, const Control& part);

 private:
  PriceBound& bound_;
  double work_;
  std::size_t size_;
  int repeats_ = 0;
};

/// All of them, until `part` says to stop.
void raise_in_rounds(PriceBound& bound, double work, const Control& listener, const Control& part);

}  // namespace lowtide::bounds
