#pragma once

#include <vector>

#include "builder/builder.h"

namespace lowtide::models {

/// Dynamic loss scaling as torch.amp.GradScaler does it: f16 has no numbers below 6e-8, so the loss
/// is multiplied by a large scale before the backward pass, and each gradient by its inverse
/// afterwards. A step whose gradients are not finite is left out and halves the scale; many steps
/// without one double it.
///
/// The scale and the number of steps since it changed are resident tensors of the optimizer's
/// state, and all decisions are ops, so that a step stays one graph.
class LossScaler {
 public:
  LossScaler(Builder& builder, double first_scale);

  /// The seed of the loss, a f32 scalar, in the backward pass.
  Value seed() const { return scale_; }
  /// A gradient without the scale.
  Value unscaled(Value gradient);
  /// 1 if any of the gradients given to unscaled() is infinite or not a number, else 0.
  Value found_inf() const;
  /// Appends the change of the scale.
  void append_update(Value found_inf) const;

 private:
  Builder& builder_;
  Value scale_, growth_tracker_, inverse_;
  std::vector<Value> largest_;  ///< magnitudes, one for each gradient
};

/// The name of the resident tensor that holds the scale.
inline constexpr const char* kLossScaleName = "scaler.scale";

}  // namespace lowtide::models
