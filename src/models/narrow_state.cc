#include "models/narrow_state.h"

#include "builder/apply.h"
#include "builder/functions.h"

namespace lowtide::models {
namespace {

/// 1 - decay ^ step, as a f64 scalar: the part that zeros have no share in.
Value bias_correction(double decay, Value step) {
  return 1.0 - step.builder().call1("aten::pow.Scalar", {decay, to(step, DType::f64)});
}

Value with_decay(const OptimizerOptions& options, Value gradient, Value parameter) {
  if (options.weight_decay == 0) return gradient;
  return apply("aten::add.Tensor", {gradient, parameter, options.weight_decay});
}

Value widened(Value state) { return to(state, DType::f32); }

}  // namespace

NarrowState::NarrowState(const ParameterUpdates& updates) : updates_(updates) {
  if (updates.found_inf) is_skipped_ = gt(updates.found_inf, 0);
  if (!updates.step) return;
  const OptimizerOptions& options = updates.options;
  negative_step_size_ = -(updates.learning_rate / bias_correction(options.beta1, updates.step));
  root_of_second_factor_ = sqrt(bias_correction(options.beta2, updates.step));
}

void NarrowState::store(Value resident, Value value) const {
  if (is_skipped_) value = where(is_skipped_, resident, value);
  updates_.builder.call("aten::copy_", {resident, value});
}

/// PyTorch's kernel updates the parameter by the new momentum in place of a gradient. It skips by
/// itself.
void NarrowState::append_sgd(Value parameter, Value gradient) const {
  constexpr double kNoDecay = 0, kNoMomentum = 0, kDampening = 0;
  constexpr bool kNesterov = false, kMaximize = false, kIsFirstStep = false;
  constexpr NoneArg kGradientScale;
  const OptimizerOptions& options = updates_.options;
  const Value momentum = updates_.state(parameter, "momentum");
  const Value sum = widened(momentum) * options.momentum + with_decay(options, gradient, parameter);
  store(momentum, sum);
  updates_.builder.call("aten::_fused_sgd_.tensor_lr",
                        {std::vector{parameter}, std::vector{sum}, std::vector<Value>{}, kNoDecay,
                         kNoMomentum, updates_.learning_rate, kDampening, kNesterov, kMaximize,
                         kIsFirstStep, kGradientScale, updates_.found_inf});
}

void NarrowState::append_adam(Value parameter, Value gradient) const {
  append_moments(parameter, parameter, with_decay(updates_.options, gradient, parameter));
}

void NarrowState::append_adamw(Value parameter, Value gradient) const {
  const double decay = updates_.options.weight_decay;
  const Value decayed = decay == 0 ? parameter : parameter * (1.0 - updates_.learning_rate * decay);
  append_moments(parameter, decayed, gradient);
}

void NarrowState::append_moments(Value parameter, Value decayed, Value gradient) const {
  const OptimizerOptions& options = updates_.options;
  const Value first_moment = updates_.state(parameter, "exp_avg");
  const Value second_moment = updates_.state(parameter, "exp_avg_sq");
  const Value first =
      apply("aten::lerp.Scalar", {widened(first_moment), gradient, 1 - options.beta1});
  const Value second = apply("aten::addcmul", {widened(second_moment) * options.beta2, gradient,
                                               gradient, 1 - options.beta2});
  store(first_moment, first);
  store(second_moment, second);
  const Value denominator = sqrt(second) / root_of_second_factor_ + options.epsilon;
  store(parameter, decayed + first * negative_step_size_ / denominator);
}

}  // namespace lowtide::models
