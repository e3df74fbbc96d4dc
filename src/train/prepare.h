#pragma once

#include "base/control.h"
#include "plan/replay.h"
#include "planner/does_not_fit.h"
#include "planner/planner.h"
#include "train/options.h"

namespace lowtide::train {

/// A training step of `recipe`, measured on this machine.
struct Step {
  Graph graph;
  KeepAll keep_all;
};

/// Builds the training graph of the options' recipe and profiles it. Throws InfeasibleError before
/// anything is measured when it is plain that the budget or the machine's memory is too small, and
/// StoppedError on a stop request.
Step prepare_step(const TrainOptions& options, const Control& control);

/// How a budget is divided.
struct Division {
  Bytes budget_bytes = 0;    ///< everything
  Bytes executor_bytes = 0;  ///< generator states and the declared reserve
  Bytes plan_bytes() const { return budget_bytes - executor_bytes; }
};

/// A plan that fits, with what it leaves to the executor.
struct Fitted {
  planner::Planned planned;
  Division division;
  const Plan& plan() const { return *planned.plan; }
};

/// Plans the step within the budget of `options`. Throws planner::DoesNotFit, or StoppedError when the user
/// stopped the search before a plan was found.
Fitted fit(const Step& step, const MemoryOptions& options, const Control::Listener& listener);

}  // namespace lowtide::train
