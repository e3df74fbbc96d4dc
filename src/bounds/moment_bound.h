#pragma once

#include "base/control.h"
#include "bounds/price_bound.h"
#include "remat/stage_graph.h"

namespace lowtide::bounds {

/// The price bound where memory has a price during one first run only. Then the cheapest choice of
/// what to hold over this moment and what to make again after it is a minimum cut of the whole
/// graph, so that no cluster gets values of others for free. It is the better bound where memory is
/// short at one moment, as at the end of the forward pass of a transformer.
struct MomentBound {
  double value = 0;  ///< no plan in the graph's order costs less
  double price = 0;  ///< per byte
  int stage = kNone;
};

/// Looks at the moment that has the highest price in `bound`, and starts with this price. Counts no
/// work: it takes far less time than the clusters of `bound` do.
MomentBound moment_bound(const remat::StageGraph& graph, const PriceBound& bound,
                         const Control& control);

}  // namespace lowtide::bounds
