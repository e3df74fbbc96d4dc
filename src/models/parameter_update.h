#pragma once

#include <string_view>

#include "builder/builder.h"
#include "models/model.h"

namespace lowtide::models {

/// All that the updates of one step share.
struct ParameterUpdates {
  Builder& builder;
  const OptimizerOptions& options;
  DType state_type;     ///< of momentum and moments
  Value learning_rate;  ///< f64 scalar
  Value step;           ///< f32 scalar, this step counted; empty for sgd
  Value found_inf;      ///< f32 scalar; may be empty

  /// Momentum or a moment of a parameter, zeros at first.
  Value state(Value parameter, std::string_view what) const;
};

}  // namespace lowtide::models
