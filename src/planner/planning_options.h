#pragma once

#include <string>

#include "base/budget.h"
#include "strategy/strategy.h"

namespace lowtide::planner {

/// Everything that a user asks of a planning. Commands and training runs contain it.
struct PlanningOptions {
  Budget budget = {};
  std::string strategy = {};                     ///< empty: the default one
  strategy::GivenOptions strategy_options = {};  ///< may be partial
  double seconds = 30;                           ///< time limit; 0: none
};

}  // namespace lowtide::planner
