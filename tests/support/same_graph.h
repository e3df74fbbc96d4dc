#pragma once

#include <cstdint>

#include "graph/graph.h"

/// The same computation, written in another way.
namespace lowtide::testing {

/// With its tensors at other places of the list, and with other names.
Graph relabelled(const Graph& graph, std::uint64_t seed);

/// In a random order in which every op comes after the makers of its inputs, an op that writes a
/// resident stays in place among its readers, and ops stay on their side of a boundary.
Graph reordered(const Graph& graph, std::uint64_t seed);

}  // namespace lowtide::testing
