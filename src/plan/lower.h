#pragma once

#include <span>
#include <vector>

#include "plan/plan.h"

namespace lowtide {

/// Turns the order in which ops are executed into a plan.
///
/// `executions` lists op ids; repeats are allowed and view ops optional: a missing view op is run
/// right before the first use of its output. A use reads the latest earlier execution of its
/// producer; each storage is freed right after its last use (graph outputs stay). A result without
/// readers is freed at once. A view op whose views are live is not run again. Precondition for
/// strategies: inputs exist before each execution, and an op that may run only once is listed once;
/// else throws std::logic_error. Fills in cost and peak of the plan.
///
/// The memory model is that of docs/reference/graph-format.md. O(executions x arity).
Plan lower(const Graph& graph, std::span<const OpId> executions);

/// The ops that a plan runs, in the order of its runs.
std::vector<OpId> executions_of(const Plan& plan);

/// keep-all: each op once in the listed order, each value freed right after its last use.
Plan keep_all(const Graph& graph);

}  // namespace lowtide
