#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/control.h"
#include "remat/stage_graph.h"

namespace lowtide::strategy::dtr {

/// How to choose the next value to evict: the one with the least score.
enum class Heuristic : std::uint8_t {
  classes,  ///< h_DTR-eq: cost / (bytes x staleness), cost over approximate evicted neighbourhoods
  full,     ///< h_DTR: the same over exact neighbourhoods
  local,    ///< the same with the cost of its own op only
  lru,      ///< 1 / staleness
  size,     ///< 1 / bytes
  msps,     ///< (cost with evicted ancestors) / bytes
  ahead     ///< h_DTR with the time until the next use instead of staleness (Belady, 1966)
};

struct SimulationOptions {
  Heuristic heuristic = Heuristic::classes;
  Bytes limit = 0;       ///< on bytes in use, residents included
  double most_cost = 0;  ///< gives up when the step costs more
  /// Whether a value that is made again after its last use, only to make another, is dropped at
  /// once; else it stays until it is evicted.
  bool drop_remade = false;
};

/// Runs the ops of the graph one after the other, like a framework that does not know the next
/// ops. When memory runs out, it evicts values one by one. A missing value that is needed is made
/// again, after its own missing inputs. A value is dropped after its last use in the step. The
/// clock is the cost of all runs so far. Deterministic: of equal scores the older value is
/// evicted.
///
/// Returns the executions; nothing when an op did not fit, the cost exceeded the limit, or
/// `control` said stop. O(evictions x values).
std::optional<std::vector<OpId>> simulate(const remat::StageGraph& graph,
                                          const SimulationOptions& options, const Control& control);

/// Lowers a limit in ever smaller steps while `fits(limit)`. It starts from above, since a
/// simulation thrashes before it fails.
void lower_limit(Bytes from, const Control& control, const std::function<bool(Bytes)>& fits);

}  // namespace lowtide::strategy::dtr
