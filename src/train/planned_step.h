#pragma once

#include "train/prepare.h"

namespace lowtide::train {

/// A step, or a forward pass, and the plan for it.
struct PlannedStep {
  Step step;
  Fitted fitted;
};

/// Plans the step of `options`. Where its number of micro-batches, or of slices, is
/// models::kAutomatic, plans one for each number into which the batch divides, or for 1, 2, 4, ...
/// slices, from few to many, until more of them only take longer; the first to end is the answer,
/// and `options` gets its number. Where values may move, this is done without moves first, so that
/// what is found without them is found with them. A budget that is a share is one of what the whole
/// batch takes. Each plan has the whole time limit. The graph is written where the options say,
/// before it is planned. Throws as prepare_step() and fit(), where no number has a plan for the one
/// that needs the least, and names more slices where these may need less; InputError where both are
/// automatic.
PlannedStep planned_step(TrainOptions& options, const Control::Listener& listener);
/// The same for a forward pass alone.
PlannedStep planned_pass(TrainOptions& options, const Control::Listener& listener);

}  // namespace lowtide::train
