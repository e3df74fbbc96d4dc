#pragma once

#include "plan/plan.h"

namespace lowtide {

/// Whether the op, as last reader of the input, may write the output over it: sizes are equal, no
/// other input or output shares the bytes, and the input covers its storage.
bool may_overwrite(const Graph& graph, const Op& op, const InPlace& pair);

/// Marks runs that can write an output over an input that is freed right after them, if the graph
/// allows it, and drops these frees.
std::vector<Action> marked_in_place(const Graph& graph, std::vector<Action> actions);

/// Marks runs that can write an output over an input that dies there, if the graph allows it, and
/// drops the unnecessary frees. The cost stays the same; the peak does not grow.
Plan with_in_place(const Graph& graph, Plan plan);

}  // namespace lowtide
