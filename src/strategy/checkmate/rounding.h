#pragma once

#include <functional>
#include <vector>

#include "remat/event_plan.h"
#include "remat/stage_graph.h"

namespace lowtide::strategy::checkmate {

/// How much of a value the relaxation holds from before a stage, of 1.
using Held = std::function<double(int stage, int value)>;

/// Two-phase rounding (Jain et al., MLSys 2020, section 5): a value is held from before a stage
/// when the relaxation holds at least `threshold` of it, or when its op may not run again there;
/// then only missing values are made again. A threshold of 0 keeps everything, one above 1 nothing
/// that can be made again.
std::vector<remat::Event> rounded(const remat::StageGraph& stages, const Held& held,
                                  double threshold);

}  // namespace lowtide::strategy::checkmate
