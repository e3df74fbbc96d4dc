#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace lowtide::parallel {

/// A plan of one unit for one micro-batch: the unit keeps some values from its forward to its
/// backward pass, and the backward pass makes the others again, each once at most.
struct UnitPlan {
  Bytes held_bytes = 0;     ///< from the end of the forward pass to the backward pass
  Bytes working_bytes = 0;  ///< beyond these, while one of the passes runs
  double forward_seconds = 0;
  double backward_seconds = 0;        ///< reruns included
  double rerun_seconds = 0;           ///< of these
  double communication_seconds = 0;   ///< of both passes: collective operations of the unit itself
  std::vector<OpId> executions = {};  ///< of the unit's graph, in order (plan/lower.h)
  std::vector<std::string> reruns = {};  ///< names of the ops that run twice
};

/// The plans of a unit's graph (no updates; costs in microseconds) such that no other has less in
/// one of held bytes, working bytes and backward seconds and no more in the others; by held bytes,
/// ascending. Exhaustive over the sets of kept values where at most kMostChoices values can be made
/// again; of more, the smallest are kept always. Working bytes are those of the lowered plan with
/// writes in place, and only plans that are best in held bytes and seconds are lowered.
///
/// Throws StoppedError when the user asks to stop.
std::vector<UnitPlan> unit_plans(const Graph& graph);

inline constexpr int kMostChoices = 16;

}  // namespace lowtide::parallel
