#pragma once

#include "strategy/checkmate/stage_model.h"
#include "strategy/strategy.h"

namespace lowtide::strategy::checkmate {

/// What the strategies that solve a StageModel have in common.
std::vector<StrategyOption> with_model_options(std::vector<StrategyOption> own);
Formulation formulation(const StrategyOptions& options);

/// Throws InputError when a model would have more rows than `limit` (0: any number may be), with
/// its size and what to do: `way_on` names what lifts the limit.
void refuse_too_large(const Graph& graph, StageModel::Size size, double limit,
                      std::string_view way_on);
/// The same for a request's own model and option.
void refuse_too_large(const PlanRequest& request, const remat::StageGraph& stages);

}  // namespace lowtide::strategy::checkmate
