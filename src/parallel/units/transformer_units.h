#pragma once

#include "parallel/units/unit.h"

namespace lowtide::parallel {

/// How a transformer is trained, apart from where its parts are.
struct TransformerRecipe {
  /// sizes.batch does not matter.
  estimate::TransformerSizes sizes;
  /// Without ranks, shard and checkpoints, which placements have. A lower precision has a master
  /// copy: parameters of 2 bytes, and 4 bytes more with the optimizer's state.
  estimate::TransformerTraining training;
  /// In a lower precision: gradients add up in f32 (18 bytes for each parameter with Adam) or in
  /// the precision itself (16 bytes).
  bool wide_gradients = false;
};

/// Embedding, blocks, head. Throws InputError for sizes that do not fit together.
LayeredModel transformer_units(const TransformerRecipe& recipe);

}  // namespace lowtide::parallel
