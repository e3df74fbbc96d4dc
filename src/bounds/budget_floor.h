#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace lowtide::bounds {

/// Sets of values that budget_floor() looks at, unless told: less than a second.
inline constexpr std::int64_t kFloorWork = 200'000;

/// A lower bound in bytes, residents included, on any budget: no plan in any order and with any
/// reruns has a smaller peak, unless it moves values to slower memory. At least
/// structural_floor() (plan/replay.h).
///
/// Look at a plan backwards. When an op runs, what it reads is there. Of values S that are there at
/// once, one was made last, by an op p; while p ran, what p reads, makes and works in was there,
/// and the rest of S. Just before, the rest of S and what p reads were, and so on back to the
/// beginning. Whichever values were made last, the largest moment of the best of these ways back is
/// a bound: a bottleneck shortest path over sets, from each of the neediest ops and from the
/// graph's outputs. What may not be made any more while an op first runs, and is read later in
/// every order, is there too. A search that always goes on from the set whose way was the least so
/// far has a bound at any moment, so it may stop after `work` sets; with enough of it, the bound is
/// the smallest peak of graphs whose ops may all run again.
///
/// It holds for every reading of the rules: views are free, and outputs lie over inputs that die
/// wherever the graph allows it. About O(work x (values in a set + arity)).
Bytes budget_floor(const Graph& graph, std::int64_t work = kFloorWork);

}  // namespace lowtide::bounds
