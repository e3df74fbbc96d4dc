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

/// Fills in what the user left open, so that a checkpoint records the actual values, and has the
/// framework take the recipe's number of threads. Throws as with_defaults().
void complete(Recipe& recipe);

/// The training graph of the recipe, without measured times. Throws InputError for options that do
/// not fit together.
Graph bare_graph(const Recipe& recipe);

/// Builds the training graph of the options' recipe and profiles it. Throws InfeasibleError before
/// any measurement when the budget or the machine's memory is clearly too small, and StoppedError
/// on a stop request.
Step prepare_step(const TrainOptions& options, const Control& control);
/// The same for a forward pass alone.
Step prepare_pass(const TrainOptions& options, const Control& control);

/// The parts of a budget.
struct Division {
  Bytes budget_bytes = 0;    ///< everything
  Bytes executor_bytes = 0;  ///< generator states, the declared reserve, buffers of copies
  Bytes plan_bytes() const { return budget_bytes - executor_bytes; }
};

/// A plan that fits, and the parts of its budget.
struct Fitted {
  planner::Planned planned;
  Division division;
  const Plan& plan() const { return *planned.plan; }
};

/// Bytes of the budget that the executor takes for itself: generator states, the declared reserve.
Bytes executor_bytes(const Graph& graph, const MemoryOptions& options);

/// Plans the step within the budget of `options`. Throws planner::DoesNotFit, or StoppedError when
/// the user stopped the search before it found a plan.
Fitted fit(const Step& step, const MemoryOptions& options, const Control::Listener& listener);

}  // namespace lowtide::train
