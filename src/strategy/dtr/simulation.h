#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/control.h"
#include "remat/stage_graph.h"

namespace lowtide::strategy::dtr {

/// By what the next value to evict is chosen; the one with the least score goes.
enum class Heuristic : std::uint8_t {
  classes,  ///< h_DTR-eq: cost / (bytes x staleness), cost over approximate evicted neighbourhoods
  full,     ///< h_DTR: the same over exact neighbourhoods
  local,    ///< h_DTR-local: the same with the cost of its own op alone
  lru,      ///< 1 / staleness
  size,     ///< 1 / bytes
  msps,     ///< (cost with evicted ancestors) / bytes
  ahead     ///< h_DTR with the time until the next use in the place of staleness (Belady, 1966)
};
inline constexpr int kHeuristics = 7;

struct SimulationOptions {
  Heuristic heuristic = Heuristic::classes;
  Bytes limit = 0;       ///< on bytes in use, residents included
  double most_cost = 0;  ///< gives up when the step costs more
  /// What is made again after its last use, for the sake of something else, goes at once; else it
  /// stays until it is evicted.
  bool drop_remade = false;
};

/// Runs the ops of the graph one after the other, as a framework would that does not know what
/// comes. When memory runs out it evicts values, one by one; a value that is needed and not there
/// is made again, and what that lacks before it. A value is let go after its last use in the
/// step. The clock is the cost of what was run. Deterministic: of equal scores the older value
/// goes.
///
/// Returns the executions; nothing when an op did not fit, the cost exceeded the limit, or
/// `control` said stop. O(evictions x values).
std::optional<std::vector<OpId>> simulate(const remat::StageGraph& graph,
                                          const SimulationOptions& options, const Control& control);

/// Lowers a limit in ever smaller steps for as long as `fits(limit)`. From above, since a
/// simulation that fails thrashes before.
void lower_limit(Bytes from, const Control& control, const std::function<bool(Bytes)>& fits);

}  // namespace lowtide::strategy::dtr
