#pragma once

#include <string>

#include "graph/graph.h"

namespace lowtide::planner {

/// For people: the bytes that no plan can do without (structural_floor, budget_floor), what takes
/// them (kinds of residents; what the neediest op reads, makes and works in, with its largest
/// value), and what would have to change to need less.
std::string why_not_less(const Graph& graph);

}  // namespace lowtide::planner
