#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace lowtide::testing {

/// A valid graph to plan: chains, layers, branches, random and small steps, attention, recurrence,
/// models. Then, each with some probability: sizes and costs that differ widely or are all alike,
/// workspaces, writes in place, ops with effects or random numbers, ops that run once, several
/// outputs, a boundary with results that are dropped, bytes needed after the step, and addresses at
/// multiples of a number. The same seed gives the same graph on every machine.
Graph varied_graph(std::uint64_t seed);

}  // namespace lowtide::testing
