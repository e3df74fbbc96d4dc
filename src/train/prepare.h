#pragma once

#include "base/control.h"
#include "base/error.h"
#include "plan/replay.h"
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

/// No plan fits. what() names the smallest budget known to do, and what takes it.
class DoesNotFit : public InfeasibleError {
 public:
  DoesNotFit(const Graph& graph, const planner::Planned& planned, const Division& division);

  std::optional<Bytes> smallest_budget_bytes;  ///< that the strategy reaches
  Bytes floor_bytes;                           ///< that any plan needs
};

/// Plans the step within the budget of `fitting`. Throws DoesNotFit, or StoppedError when the user
/// stopped the search before a plan was found.
Fitted fit(const Step& step, const Fitting& fitting, const Control::Listener& listener);

}  // namespace lowtide::train
