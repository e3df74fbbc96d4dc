#pragma once

#include <cstdint>
#include <vector>

#include "certify/certificate.h"
#include "certify/price_sums.h"
#include "certify/stages.h"

namespace lowtide::certify {

/// The least cost of a cluster's values at given prices: reruns, and bytes held during first runs
/// of other stages. Computed backwards: for each set of values that may be held at a moment, the
/// least cost from there to the end.
///
/// A stage's first run needs its inputs in the cluster; reruns before it and drops take no time.
/// Between two stages that touch the cluster one set is enough, the smallest that a plan holds
/// there: reruns before it can be done at once, and reruns after it can wait.
class ClusterCost {
 public:
  /// Precondition: the cluster passed the checks of check.cc.
  ClusterCost(const Graph& graph, const Stages& stages, const Certificate::Cluster& cluster);

  /// Rounded down.
  double least(const PriceSums& prices);

 private:
  using Set = std::uint32_t;
  struct Maker {
    Set needs, makes;
    double cost;
    int first, last;  ///< stages: of its first run, and of its last rerun
  };

  Set set_of(const std::vector<TensorId>& storages) const;
  void list_visits();
  void before_first_run(int stage, double price);
  void before_holding(double price);
  void before_choices(int stage);
  double rounding() const;

  const Graph& graph_;
  const Stages& stages_;
  std::vector<TensorId> values_;
  std::vector<Maker> makers_;  // by first stage
  std::size_t ops_ = 0;        // of all reruns
  std::vector<int> visits_;    // stages that touch the values or end a rerun, ascending
  std::vector<double> bytes_;  // per set
  std::vector<double> to_go_;  // per set held: the least cost from here on
};

}  // namespace lowtide::certify
