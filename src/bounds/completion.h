#pragma once

#include <cstdint>
#include <vector>

#include "bounds/price_bound.h"
#include "bounds/value_set.h"

namespace lowtide::bounds {

/// What any plan must still pay for reruns, from a moment and what is there at that moment on: the
/// programs of PriceBound's clusters, at its prices, from the end backwards.
///
/// A glued value (bounds/contraction.h) that is there counts as what its reader makes of
/// it, which takes no more bytes and saves no less.
class CompletionBound {
 public:
  /// Takes 8 bytes for each subset of each cluster and stage. The graph must outlive this, and have
  /// no more values than a ValueSet takes.
  CompletionBound(const remat::StageGraph& graph, const PriceBound& bound);

  /// A lower bound on the cost of the reruns in `stage` and later, `live` being there before the
  /// first of them. Falls as `live` grows.
  double least_cost(int stage, const ValueSet& live) const;

 private:
  /// The bits of a cluster's subset that a value stands for.
  struct Place {
    int cluster;
    std::uint16_t bits;
  };

  void place_values(const remat::StageGraph& graph, const PriceBound& bound,
                    const std::vector<std::vector<BoundOp>>& clusters);

  std::vector<std::vector<Cluster::Completion>> completions_;  // per cluster and stage
  std::vector<std::vector<Place>> places_;                     // per value
  std::vector<double> room_price_;  // per stage: of the room in it and later
};

}  // namespace lowtide::bounds
