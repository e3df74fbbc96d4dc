#include "models/loss_scaler.h"

#include <limits>

#include "builder/apply.h"
#include "builder/functions.h"

namespace lowtide::models {
namespace {

// The defaults of torch.amp.GradScaler.
constexpr double kGrowthFactor = 2;
constexpr double kBackoffFactor = 0.5;
constexpr std::int64_t kGrowthInterval = 2000;

}  // namespace

LossScaler::LossScaler(Builder& builder, double first_scale)
    : builder_(builder),
      scale_(builder.resident(kLossScaleName, {}, DType::f32, Role::optimizer_state,
                              init::constant(first_scale))),
      growth_tracker_(builder.resident("scaler.growth_tracker", {}, DType::i32,
                                       Role::optimizer_state, init::zeros())) {}

/// The inverse is rounded once, from f64, as in PyTorch. The product may be written over the
/// gradient.
Value LossScaler::unscaled(Value gradient) {
  if (!inverse_) inverse_ = to(reciprocal(to(scale_, DType::f64)), DType::f32);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  largest_.push_back(apply("aten::linalg_vector_norm", {gradient, kInfinity}));
  return gradient * inverse_;
}

/// PyTorch's own op writes the gradients that it tests, which are values here: a value is never
/// written after it is made. The largest magnitude tells as much and takes no memory: it is
/// infinite or not a number where an element is. Times zero, that is not a number, which differs
/// from zero.
Value LossScaler::found_inf() const {
  const Value zero_or_nan = amax(stack(largest_, 0), {0}) * 0.0;
  return to(apply("aten::ne.Scalar", {zero_or_nan, 0.0}), DType::f32);
}

void LossScaler::append_update(Value found_inf) const {
  builder_.call("aten::_amp_update_scale_", {scale_, growth_tracker_, found_inf, kGrowthFactor,
                                             kBackoffFactor, kGrowthInterval});
}

}  // namespace lowtide::models
