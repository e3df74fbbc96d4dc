#pragma once

#include <string>

#include "models/model.h"

namespace lowtide::models {

/// Describes a training step: the model, its sizes and its optimizer.
struct StepRecipe {
  std::string model;
  ModelOptions sizes;
  OptimizerOptions optimizer;
};

}  // namespace lowtide::models
