#include <fmt/format.h>

#include <optional>

#include "base/at.h"
#include "base/error.h"
#include "builder/functions.h"
#include "models/model.h"
#include "models/narrow_state.h"
#include "models/parameter_update.h"

namespace lowtide::models {

Value ParameterUpdates::state(Value parameter, std::string_view what) const {
  const Tensor& tensor = builder.data().tensors[at(parameter.id())];
  return builder.resident(fmt::format("optimizer.{}.{}", tensor.name, what), parameter.shape(),
                          state_type, Role::optimizer_state, init::zeros());
}

namespace {

constexpr bool kMaximize = false;
constexpr NoneArg kGradientScale;  // the kernels would write the gradients

// A momentum of zeros gives the same first step as PyTorch: momentum * 0 + gradient.
void append_sgd(const ParameterUpdates& updates, Value parameter, Value gradient) {
  constexpr double kDampening = 0;
  constexpr bool kNesterov = false, kIsFirstStep = false;
  std::vector<Value> momentum;
  if (updates.options.momentum > 0) momentum.push_back(updates.state(parameter, "momentum"));
  updates.builder.call(
      "aten::_fused_sgd_.tensor_lr",
      {std::vector{parameter}, std::vector{gradient}, momentum, updates.options.weight_decay,
       updates.options.momentum, updates.learning_rate, kDampening, kNesterov, kMaximize,
       kIsFirstStep, kGradientScale, updates.found_inf});
}

void append_adam_like(std::string_view type, const ParameterUpdates& updates, Value parameter,
                      Value gradient) {
  constexpr bool kAmsgrad = false;
  const OptimizerOptions& options = updates.options;
  Value first_moment = updates.state(parameter, "exp_avg");
  Value second_moment = updates.state(parameter, "exp_avg_sq");
  updates.builder.call(type,
                       {std::vector{parameter}, std::vector{gradient}, std::vector{first_moment},
                        std::vector{second_moment}, std::vector<Value>{}, std::vector{updates.step},
                        updates.learning_rate, options.beta1, options.beta2, options.weight_decay,
                        options.epsilon, kAmsgrad, kMaximize, kGradientScale, updates.found_inf});
}

void append_adam(const ParameterUpdates& updates, Value parameter, Value gradient) {
  append_adam_like("aten::_fused_adam_.tensor_lr", updates, parameter, gradient);
}

void append_adamw(const ParameterUpdates& updates, Value parameter, Value gradient) {
  append_adam_like("aten::_fused_adamw_.tensor_lr", updates, parameter, gradient);
}

struct Optimizer {
  std::string_view name;
  double learning_rate;  ///< by default
  bool counts_steps;
  void (*append)(const ParameterUpdates& updates, Value parameter, Value gradient);
  void (NarrowState::*append_narrow)(Value parameter, Value gradient) const;
};
constexpr Optimizer kOptimizers[] = {
    {"sgd", 0.1, false, append_sgd, &NarrowState::append_sgd},
    {"adam", 0.001, true, append_adam, &NarrowState::append_adam},
    {"adamw", 0.001, true, append_adamw, &NarrowState::append_adamw}};

const Optimizer& find_optimizer(std::string_view name) {
  for (const Optimizer& optimizer : kOptimizers) {
    if (optimizer.name == name) return optimizer;
  }
  throw InputError(fmt::format("unknown optimizer \"{}\"; there are sgd, adam and adamw", name));
}

/// Whether a parameter has momentum or moments.
bool holds_state(const OptimizerOptions& options) {
  return find_optimizer(options.name).counts_steps || options.momentum > 0;
}

constexpr RateOption kRateOptions[] = {
    {"lr", &OptimizerOptions::learning_rate, "Learning rate [0.1 for sgd, 0.001 for the others]",
     true, true},
    {"momentum", &OptimizerOptions::momentum, "Momentum of sgd [0.9]", true, false},
    {"beta1", &OptimizerOptions::beta1, "Decay of adam's first moment [0.9]", false, true},
    {"beta2", &OptimizerOptions::beta2, "Decay of adam's second moment [0.999]", false, true},
    {"epsilon", &OptimizerOptions::epsilon, "Adam's epsilon [1e-8]", false, true},
    {"weight-decay", &OptimizerOptions::weight_decay, "Weight decay [0]", true, true}};

void require_range(std::string_view what, double value, double low, double high) {
  if (value >= low && value < high) return;
  throw InputError(
      fmt::format("{} must be at least {} and below {}, not {}", what, low, high, value));
}

void check(const OptimizerOptions& options) {
  constexpr double kLarge = 1e6;
  require_range("the learning rate", options.learning_rate, 0, kLarge);
  require_range("momentum", options.momentum, 0, 1);
  require_range("beta1", options.beta1, 0, 1);
  require_range("beta2", options.beta2, 0, 1);
  require_range("epsilon", options.epsilon, 0, kLarge);
  require_range("weight decay", options.weight_decay, 0, kLarge);
}

}  // namespace

std::span<const RateOption> rate_options() { return kRateOptions; }

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const Optimizer& optimizer : kOptimizers) names.emplace_back(optimizer.name);
  return names;
}

bool reads(std::string_view optimizer, const RateOption& rate) {
  return find_optimizer(optimizer).counts_steps ? rate.is_of_adam : rate.is_of_sgd;
}

OptimizerOptions with_defaults(const OptimizerOptions& given) {
  OptimizerOptions complete = given;
  const double usual = find_optimizer(given.name).learning_rate;
  if (given.learning_rate == 0) complete.learning_rate = usual;
  return complete;
}

std::int64_t optimizer_states(const OptimizerOptions& options) {
  if (find_optimizer(options.name).counts_steps) return 2;
  return options.momentum > 0 ? 1 : 0;
}

void append_optimizer(Builder& builder, std::span<const Value> parameters,
                      std::span<const Value> gradients, const OptimizerOptions& given,
                      DType state_type, Value found_inf) {
  const Optimizer& optimizer = find_optimizer(given.name);
  const OptimizerOptions options = with_defaults(given);
  check(options);
  builder.set_phase(Phase::optimizer);
  // f64, so that the kernels get exactly the given rate, as in PyTorch.
  Value learning_rate = builder.resident("optimizer.lr", {}, DType::f64, Role::optimizer_state,
                                         init::constant(options.learning_rate));
  Value step;
  if (optimizer.counts_steps) {
    step = builder.resident("optimizer.step", {}, DType::f32, Role::optimizer_state, init::zeros());
    builder.call("aten::add_.Scalar", {step, 1.0});
  }
  const ParameterUpdates updates = {builder, options, state_type, learning_rate, step, found_inf};
  std::optional<NarrowState> narrow;
  if (state_type != DType::f32 && holds_state(options)) narrow.emplace(updates);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Value gradient = to(gradients[i], DType::f32);
    if (narrow) {
      ((*narrow).*optimizer.append_narrow)(parameters[i], gradient);
    } else {
      optimizer.append(updates, parameters[i], gradient);
    }
  }
  if (step && found_inf) builder.call("aten::add_.Tensor", {step, found_inf, -1.0});
}

}  // namespace lowtide::models
