#pragma once

#include "plan/plan.h"

namespace lowtide {

/// Whether the op may write that output over that input when it is the last to read it: the bytes
/// are as many, nothing else that the op reads or makes shares them, and no view hides a part.
bool may_overwrite(const Graph& graph, const Op& op, const InPlace& pair);

/// Marks runs that can write an output over an input that dies there, where the graph allows it,
/// and drops the frees that this makes needless. Cost stays, memory does not grow.
Plan with_in_place(const Graph& graph, Plan plan);

}  // namespace lowtide
