#pragma once

#include "models/parameter_update.h"

namespace lowtide::models {

/// Updates of parameters whose momentum or moments are held in a narrower type than the
/// parameters': they are widened, the arithmetic is that of torch.optim without `fused` and
/// `foreach`, in f32, and they are stored as the nearest numbers of their type. The parameter is
/// updated with the numbers from before they are stored.
class NarrowState {
 public:
  explicit NarrowState(const ParameterUpdates& updates);

  /// Gradients are f32.
  void append_sgd(Value parameter, Value gradient) const;
  void append_adam(Value parameter, Value gradient) const;
  /// Decoupled weight decay: Loshchilov and Hutter 2019.
  void append_adamw(Value parameter, Value gradient) const;

 private:
  /// Kingma and Ba 2015, with the parameter as the weight decay left it.
  void append_moments(Value parameter, Value decayed, Value gradient) const;
  /// Nothing is stored in a step that is skipped.
  void store(Value resident, Value value) const;

  const ParameterUpdates& updates_;
  Value is_skipped_;             ///< boolean scalar; empty where no step is skipped
  Value negative_step_size_;     ///< f64 scalar: the learning rate over the first bias correction
  Value root_of_second_factor_;  ///< f64 scalar: of the second bias correction
};

}  // namespace lowtide::models
