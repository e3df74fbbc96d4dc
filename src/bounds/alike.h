#pragma once

#include <span>
#include <vector>

#include "bounds/cluster.h"
#include "remat/prices.h"

namespace lowtide::bounds {

/// Clusters in kinds: those of one kind have equal solutions.
struct Kinds {
  std::vector<int> of;     ///< per cluster: its kind
  std::vector<int> first;  ///< per kind: its first cluster
};

/// Clusters with one program, and the same price over each span. Models repeat layers, and most
/// stages have no price, so thousands of clusters can be of tens of kinds.
Kinds kinds_at(std::span<const Cluster> clusters, const remat::Prices& prices);

/// Lets clusters with equal programs share one.
void share_programs(std::span<Cluster> clusters);

}  // namespace lowtide::bounds
