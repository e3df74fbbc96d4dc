#pragma once

#include <span>
#include <vector>

#include "plan/plan.h"

namespace lowtide {

/// Turns the order in which ops are executed into a plan.
///
/// `executions` lists op ids, repeats allowed, view ops left out or not: a view op that is missing
/// is run right before the first use of its output. A use reads the latest earlier execution of
/// its producer; each storage is freed right after its last such use (graph outputs stay). A
/// result that nothing reads is freed at once. A view op whose views are live is not run again.
/// Throws std::logic_error when an op is executed before an input exists, or again though it may
/// run only once: strategies must not do that. Cost and peak of the plan are filled in.
///
/// The memory model is that of docs/reference/graph-format.md. O(executions x arity).
Plan lower(const Graph& graph, std::span<const OpId> executions);

/// keep-all: each op once in the listed order, each value freed right after its last use.
Plan keep_all(const Graph& graph);

}  // namespace lowtide
