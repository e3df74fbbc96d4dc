#pragma once

#include <string>

#include "base/control.h"
#include "largest/extra_time.h"
#include "largest/size_search.h"
#include "largest/trial.h"
#include "strategy/strategy.h"

namespace lowtide::largest {

/// What is asked: the largest size whose step has a plan within a budget.
struct Question {
  Sizes sizes;
  std::string what;  ///< "batch" or "length"
  Bytes budget_bytes = 0;
  ExtraTime extra;
  const strategy::Strategy* strategy = nullptr;
  strategy::GivenOptions strategy_options;
  double seconds = 0;  ///< of planning, for all sizes together; 0: no limit
  Control::Listener listener;
};

/// Three searches, each within what the one before left open. The first asks which sizes are
/// impossible: no plan needs less than bounds::budget_floor(). The second plans with times and
/// workspaces that are not measured at the size. The third, where steps are measured, measures,
/// plans and runs sizes from there, until the next one does not fit. A step that takes more than
/// the budget, or more time than asked for, counts as one that does not fit. A plan of another size
/// is taken over where it fits (planner::transfer).
///
/// Each plan has its part of the time limit; a search that finds none looks for the smallest budget
/// for a third as long again. A stop request ends it with the best size so far. Throws
/// InfeasibleError (planner::DoesNotFit) when not even the first size fits, of which nothing is
/// measured if that is impossible; StoppedError when stopped before any fitted.
Largest largest_size(const Question& question, Steps& steps);

}  // namespace lowtide::largest
