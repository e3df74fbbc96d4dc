#pragma once

#include <string>

#include "models/model.h"

namespace lowtide::models {

/// Describes a training step: the model, its sizes, its optimizer and its precision.
struct StepRecipe {
  std::string model;
  ModelOptions sizes;
  OptimizerOptions optimizer;
  Precision precision;
};

}  // namespace lowtide::models
