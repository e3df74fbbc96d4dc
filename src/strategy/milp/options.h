#pragma once

#include "strategy/milp/stage_model.h"
#include "strategy/strategy.h"

namespace lowtide {

/// What the strategies that solve a StageModel have in common.
std::vector<StrategyOption> with_model_options(std::vector<StrategyOption> own);
Formulation formulation(const StrategyOptions& options);

/// Throws InputError when the request's model has more rows than the option "rows" allows.
void refuse_too_large(const PlanRequest& request, const StageGraph& stages,
                      std::string_view strategy);

}  // namespace lowtide
