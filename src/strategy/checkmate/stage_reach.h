#pragma once

#include <algorithm>
#include <vector>

#include "graph/graph.h"
#include "remat/stage_graph.h"

namespace lowtide::strategy::checkmate {

/// Of the budget, what residents leave.
double room_bytes(const remat::StageGraph& stages, Bytes budget);

/// The range of stages in which each op and value of a StageModel has variables.
struct StageReach {
  StageReach(const Graph& graph, const remat::StageGraph& stages, Bytes budget);

  bool counts(int v) const { return last_held[v] != kNone; }
  bool may_overwrite(int i, int v) const;
  /// The first stage in which freeing v after the op of stage i matters: at the end of its own
  /// stage only a write in place needs it.
  int first_free(int i, int v) const { return may_overwrite(i, v) ? i : i + 1; }
  int num_runs(int i) const { return last_run[i] - i + 1; }
  int num_frees(int i, int v) const { return std::max(0, last_run[i] - first_free(i, v) + 1); }

  std::vector<int> last_run;   ///< per stage: the last one in which a run of its op is useful
  std::vector<int> last_held;  ///< per value: the last stage that may use it; kNone: left out
  std::vector<std::vector<int>> touchers;     ///< per value: its producer, then its readers
  std::vector<std::vector<int>> overwritten;  ///< per stage: inputs that may be overwritten

 private:
  void find_overwritten(const Graph& graph, const remat::StageGraph& stages);
};

}  // namespace lowtide::strategy::checkmate
