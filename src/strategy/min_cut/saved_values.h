#pragma once

#include <vector>

#include "remat/stage_graph.h"

namespace lowtide::strategy::min_cut {

/// The forward values of the fewest bytes from which the backward pass can run, when the stages
/// marked in `once` (per stage) may not run again; of several such sets the one that is made last,
/// so that reruns are fewest. `kept` values (per value) are always in memory and cost nothing.
/// Returns the values to keep, `kept` included. By a minimum cut of the forward pass in which each
/// value has its bytes as capacity.
std::vector<bool> fewest_saved(const remat::StageGraph& graph, int forward_end,
                               const std::vector<bool>& once, std::vector<bool> kept);

}  // namespace lowtide::strategy::min_cut
