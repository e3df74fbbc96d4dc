#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"

namespace lowtide {

/// The same graph with its ops in another order: op k of the result is op order[k] of `graph`.
/// Tensors keep their numbers. `order` names every op once. Throws InputError when an op would come
/// before what it reads; the order of effects is the caller's business.
Graph permuted(const Graph& graph, std::span<const OpId> order);

/// From the ops of the graph to those of the result: the place of each in the order.
std::vector<OpId> inverse(std::span<const OpId> order);

/// Executions of the one graph as those of the other: `to` is the order, or its inverse.
std::vector<OpId> mapped(std::span<const OpId> executions, std::span<const OpId> to);

}  // namespace lowtide
