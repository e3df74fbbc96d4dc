#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace lowtide::certify {

/// A 64-bit hash (FNV-1a) of everything in a graph that plans depend on: bytes, kinds and views of
/// tensors; inputs, outputs, costs, workspaces, effects and in-place permissions of ops; the
/// graph's outputs. Names do not count. Detects mistakes, not forgery.
std::uint64_t digest(const Graph& graph);

}  // namespace lowtide::certify
