#pragma once

#include "strategy/checkmate/stage_model.h"
#include "strategy/strategy.h"

namespace lowtide::strategy::checkmate {

/// Common parts of the strategies that solve a StageModel.
std::vector<StrategyOption> with_model_options(std::vector<StrategyOption> own);
Formulation formulation(const StrategyOptions& options);

/// Throws InputError when a model would have more rows than `limit` (0: no limit), with its size
/// and advice: `way_on` says how to lift the limit.
void refuse_too_large(const Graph& graph, StageModel::Size size, double limit,
                      std::string_view way_on);
/// The same for a request's own model and option.
void refuse_too_large(const PlanRequest& request, const remat::StageGraph& stages);

}  // namespace lowtide::strategy::checkmate
