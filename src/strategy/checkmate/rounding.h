#pragma once

#include <span>
#include <vector>

#include "strategy/checkmate/stage_model.h"

namespace lowtide::strategy::checkmate {

/// Two-phase rounding (Jain et al., MLSys 2020, section 5): a value is held from before a stage
/// when the relaxation holds at least `threshold` of it, or when its op may not run again there;
/// then only missing values are made again. A threshold of 0 keeps everything, one above 1 nothing
/// that can be made again.
std::vector<remat::Event> rounded(const remat::StageGraph& stages, const StageModel& model,
                                  std::span<const double> values, double threshold);

}  // namespace lowtide::strategy::checkmate
