#pragma once

#include <span>

#include "graph/graph.h"

namespace lowtide {

/// The same graph with its ops in another order: op k of the result is op order[k] of `graph`.
/// Tensors keep their numbers. `order` names every op once. Throws InputError when an op would come
/// before what it reads; the order of effects is the caller's business.
Graph permuted(const Graph& graph, std::span<const OpId> order);

}  // namespace lowtide
