#pragma once

#include <span>
#include <vector>

#include "strategy/checkmate/stage_model.h"

namespace lowtide::strategy::checkmate {

/// What solving Formulation::ends again and again takes: each time with a plan to begin with, and
/// with more stages described.

/// The plan of these events as a solution of the model; nothing when it is none, in-place writes
/// being counted there otherwise than they are done.
std::vector<double> start_for(const StageModel& model, std::span<const remat::Event> events);

/// Marks the stages in which these events take more than the budget. Whether one of them was not
/// marked before.
bool describe_overfull(const remat::StageGraph& stages, std::span<const remat::Event> events,
                       Bytes budget, std::vector<bool>& inside);

}  // namespace lowtide::strategy::checkmate
