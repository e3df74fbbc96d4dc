#pragma once

#include <span>
#include <vector>

#include "strategy/checkmate/stage_model.h"

namespace lowtide::strategy::checkmate {

/// Helpers to solve Formulation::ends repeatedly, each time from a plan and with more stages
/// described.

/// The plan of these events and loads as a solution of the model. Nothing when the model does not
/// accept it, because it counts writes in place differently.
std::vector<double> start_for(const StageModel& model, std::span<const remat::Event> events,
                              std::span<const StageModel::Load> loads = {});

/// Marks the stages in which these events need more than the budget. Returns whether one of them
/// was not marked before.
bool describe_overfull(const remat::StageGraph& stages, std::span<const remat::Event> events,
                       Bytes budget, std::vector<bool>& inside);

}  // namespace lowtide::strategy::checkmate
