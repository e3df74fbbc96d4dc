#pragma once

#include "cli/progress.h"
#include "train/trainer.h"

namespace lowtide::cli {

/// Shows the messages of a training run, and a line for each step. `progress` must outlive it.
train::TrainListener step_lines(Progress& progress);

}  // namespace lowtide::cli
