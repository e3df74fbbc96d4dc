#pragma once

#include <span>

#include "ordering/precedence.h"

namespace lowtide::ordering {

/// A sequence of executions as a graph of its own: each execution is a stage that runs once, and
/// what it makes are values of their own, read by those executions that find them as the latest.
struct Unrolled {
  remat::StageGraph graph;
  Precedence precedence;  ///< also: the executions of one op stay in their order
};

/// Of executions that run all stages, some again.
Unrolled unrolled(const remat::StageGraph& stages, const Precedence& precedence,
                  std::span<const OpId> executions);

}  // namespace lowtide::ordering
