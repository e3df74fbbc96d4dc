#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace lowtide::bounds {

/// Default number of sets of values that budget_floor() visits: less than a second.
inline constexpr std::int64_t kFloorWork = 200'000;

/// A lower bound in bytes, residents included, on any budget: no plan in any order and with any
/// reruns has a smaller peak, unless it moves values to slower memory. At least structural_floor()
/// (plan/replay.h).
///
/// Walk a plan backwards. When an op runs, its inputs are in memory. Of a set S of values in
/// memory, one was made last, by an op p. While p ran, its inputs, outputs and workspace were in
/// memory, and the rest of S. Just before, p's inputs and the rest of S were, and so on back to the
/// beginning. The bound is the least, over all such paths, of the largest need on the path: a
/// bottleneck shortest path over sets, from each of the ops that need the most and from the graph's
/// outputs. While an op first runs, values that can no longer be made and are read later in every
/// order count too. The search always expands the set with the least need so far, so it has a bound
/// at any moment and may stop after `work` sets. With enough work, the bound is the smallest peak
/// of graphs whose ops may all run again.
///
/// It holds for every reading of the rules: views are free, and outputs lie over dying inputs
/// wherever the graph allows it. About O(work x (values in a set + arity)).
Bytes budget_floor(const Graph& graph, std::int64_t work = kFloorWork);

}  // namespace lowtide::bounds
