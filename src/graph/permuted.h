#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"

namespace lowtide {

/// The same graph with its ops in another order: op k of the result is op order[k] of `graph`.
/// Tensors keep their numbers. `order` names every op once. Throws InputError when an op would come
/// before the producer of an input. The caller must keep the order of effects.
Graph permuted(const Graph& graph, std::span<const OpId> order);

/// The inverse permutation: for each op of the graph, its place in the order.
std::vector<OpId> inverse(std::span<const OpId> order);

/// Translates executions from one graph to the other: `to` is the order or its inverse.
std::vector<OpId> mapped(std::span<const OpId> executions, std::span<const OpId> to);

}  // namespace lowtide
