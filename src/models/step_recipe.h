#pragma once

#include <string>

#include "models/model.h"

namespace lowtide::models {

/// Describes a training step: the model, its sizes, its optimizer, its precision, its
/// micro-batches and its slices.
struct StepRecipe {
  std::string model;
  ModelOptions sizes;
  OptimizerOptions optimizer;
  Precision precision;
  std::int64_t micro_batches = 1;  ///< into which a batch is divided
  std::int64_t slices = 1;         ///< in which ops run, of each micro-batch (slices/in_slices.h)
};

/// The whole training step. Throws InputError for options that do not fit.
Graph training_graph(const StepRecipe& recipe);

}  // namespace lowtide::models
