#pragma once

#include <span>
#include <vector>

#include "plan/plan.h"

namespace lowtide {

/// What a plan costs and holds, replayed exactly.
struct Replay {
  double cost = 0;
  Bytes peak_bytes = 0;
  std::int32_t peak_action = 0;  ///< index of the first action at the peak
  /// Bytes in use while each action goes on (of a free: after it), residents and workspace
  /// included.
  std::vector<Bytes> memory;
  /// Storages of values that are live at the peak (those that the peak action makes included),
  /// largest first.
  std::vector<TensorId> live_at_peak;
  Bytes workspace_at_peak = 0;
};

/// Replays a plan. Throws InputError at an action that cannot be done (plan/verify.h knows every
/// rule and says more).
Replay replay(const Graph& graph, const Plan& plan);

/// The references for overheads and shares.
struct KeepAll {
  double cost = 0;
  Bytes peak_bytes = 0;
};
KeepAll keep_all_reference(const Graph& graph);

/// A lower bound on any budget: residents plus what the neediest op's inputs, outputs and
/// workspace take at once, outputs written in place wherever the graph allows it. Only ops that
/// every plan runs count. `op` is kNone when the residents alone are the most.
struct Floor {
  Bytes bytes = 0;
  OpId op = kNone;
};
Floor structural_floor(const Graph& graph);

}  // namespace lowtide
