#pragma once

#include <span>
#include <vector>

#include "plan/plan.h"

namespace lowtide {

/// The cost and memory of a plan, replayed exactly.
struct Replay {
  double cost = 0;
  Bytes peak_bytes = 0;
  std::int32_t peak_action = 0;  ///< index of the first action at the peak
  /// Bytes in use during each action (for a free: after it), residents and workspace
  /// included.
  std::vector<Bytes> memory;
  /// Storages of values that are live at the peak, including outputs of the peak action, largest
  /// first.
  std::vector<TensorId> live_at_peak;
  Bytes workspace_at_peak = 0;
  std::vector<double> waited;  ///< by storage: the time of the waits for its copies
};

/// Replays a plan. Throws InputError at an impossible action (plan/verify.h checks every rule and
/// gives a better message).
Replay replay(const Graph& graph, const Plan& plan);

/// A valid plan with other lanes, and the time that it takes by them. Its lower bound was one for
/// the lanes before, so it has none.
Plan with_lanes(const Graph& graph, Plan plan, const PlaceLanes& lanes);

/// The keep-all plan's values, the reference for overheads and shares.
struct KeepAll {
  double cost = 0;
  Bytes peak_bytes = 0;
};
KeepAll keep_all_reference(const Graph& graph);

/// A lower bound on any budget: residents plus the inputs, outputs and workspace of the op with the
/// largest sum, outputs written in place wherever the graph allows it. Only ops that every plan
/// runs count. `op` is kNone when no op adds bytes to the residents. `away`, by tensor: residents
/// that count only while an op uses them; empty: none.
struct Floor {
  Bytes bytes = 0;
  OpId op = kNone;
};
Floor structural_floor(const Graph& graph, const std::vector<bool>& away = {});

}  // namespace lowtide
