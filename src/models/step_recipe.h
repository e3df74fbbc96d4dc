#pragma once

#include <string>

#include "models/model.h"

namespace lowtide::models {

/// Describes a training step: the model, its sizes, its optimizer, its precision and
/// its micro-batches.
struct StepRecipe {
  std::string model;
  ModelOptions sizes;
  OptimizerOptions optimizer;
  Precision precision;
  std::int64_t micro_batches = 1;  ///< into which a batch is divided
};

}  // namespace lowtide::models
