#pragma once

#include <optional>

#include "plan/plan.h"

namespace lowtide::planner {

/// Whether two graphs are the same ops on the same tensors, with other sizes maybe: a model's step
/// for another batch or another length of its sequences.
bool same_structure(const Graph& a, const Graph& b);

/// The decisions of a plan made for another graph of the same structure, for this one: the same
/// executions in the same order, with in-place writes, addresses and figures of this graph. Other
/// outputs are held to the end. Nothing when ops or tensors differ, or when the plan needs more
/// than `budget` (residents included). No lower bound carries over. Needs milliseconds, where a
/// search needs seconds.
std::optional<Plan> transfer(const Graph& graph, const Graph& from, const Plan& plan, Bytes budget);

}  // namespace lowtide::planner
