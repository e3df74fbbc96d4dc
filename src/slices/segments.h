#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"

namespace lowtide::slices {

/// The ops of a graph as runs of one phase each, in their order: a forward pass, a backward pass,
/// with micro-batches those of the next, the update.
std::vector<std::vector<OpId>> passes(const Graph& graph);

/// The ops of a pass, in their order, cut where the pass is narrow: where little is alive beside
/// what is alive around. A pass in slices that ends a segment before it begins the next one has the
/// gradients of the segment's parameters complete, and holds the narrow places of all slices.
std::vector<std::vector<OpId>> segments(const Graph& graph, std::span<const OpId> pass);

}  // namespace lowtide::slices
