#pragma once

#include <string>

#include "graph/graph.h"

namespace lowtide::planner {

/// For people: the bytes that every plan needs (structural_floor, budget_floor), the tensors that
/// make them up (kinds of residents; inputs, outputs and workspace of the op that needs most, with
/// its largest value), and the changes of the model or the batch that would need less. All totals
/// contain `reserved_bytes`: what the budget holds beside the plan.
std::string why_not_less(const Graph& graph, Bytes reserved_bytes = 0);

}  // namespace lowtide::planner
