#pragma once

#include <cstdint>
#include <vector>

#include "bounds/price_bound.h"
#include "bounds/value_set.h"

namespace lowtide::bounds {

/// A lower bound on the cost of later reruns, given a moment and the values live at it: the
/// programs of PriceBound's clusters, at its prices, from the end backwards.
///
/// A live glued value (bounds/contraction.h) counts as the outputs of its reader, which need no
/// more bytes and save at least as much.
class CompletionBound {
 public:
  /// Uses 8 bytes for each subset of each cluster and stage. The graph must outlive this, and its
  /// number of values must be at most ValueSet::kMost.
  CompletionBound(const remat::StageGraph& graph, const PriceBound& bound);

  /// A lower bound on the cost of the reruns in `stage` and later, if `live` values exist before
  /// the first of them. Falls as `live` grows.
  double least_cost(int stage, const ValueSet& live) const;

 private:
  /// The bits of a cluster's subset that represent a value.
  struct Place {
    int cluster;
    std::uint16_t bits;
  };

  void place_values(const remat::StageGraph& graph, const PriceBound& bound,
                    const std::vector<std::vector<BoundOp>>& clusters);

  std::vector<std::vector<Cluster::Completion>> completions_;  // per cluster and stage
  std::vector<std::vector<Place>> places_;                     // per value
  std::vector<double> room_price_;  // per stage: price of the room in it and later
};

}  // namespace lowtide::bounds
