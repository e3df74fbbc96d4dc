#pragma once

#include <span>

#include "ordering/precedence.h"

namespace lowtide::ordering {

/// A sequence of executions as a graph of its own. Each execution is a stage that runs once and
/// makes values of its own; an execution reads the latest of them.
struct Unrolled {
  remat::StageGraph graph;
  Precedence precedence;  ///< also: the executions of one op stay in their order
};

/// `executions` must run every stage at least once.
Unrolled unrolled(const remat::StageGraph& stages, const Precedence& precedence,
                  std::span<const OpId> executions);

}  // namespace lowtide::ordering
