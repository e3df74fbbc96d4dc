#include <fmt/format.h>

#include "ops/op_def.h"
#include "ops/promotion.h"
#include "ops/shapes.h"
#include "ops/strides.h"

/// Losses and their gradients.
namespace lowtide::ops {
namespace {

using Outputs = std::vector<OutputType>;

constexpr std::int64_t kNoReduction = 0;

/// Checks that scores (N, C, ...) and classes (N, ...) agree; returns the shape of the classes.
const Shape& class_shape(const OpCall& call, std::size_t scores) {
  const Shape& all = call.tensor(scores).shape;
  const Shape& classes = call.tensor(scores + 1).shape;
  Shape expected = all;
  if (expected.size() >= 2) expected.erase(expected.begin() + 1);
  if (all.size() < 2 || classes != expected) {
    refuse(call.type(), fmt::format("scores {} and classes {} do not fit", format_shape(all),
                                    format_shape(classes)));
  }
  return classes;
}

/// The loss and the total weight of the averaged elements.
Outputs nll_loss(const OpCall& call) {
  const DType dtype = call.tensor(0).dtype;
  const Shape& classes = class_shape(call, 0);
  const bool each = call.integer(3) == kNoReduction;
  return {fresh(dtype, each ? classes : Shape{}), fresh(dtype, {})};
}

Outputs nll_loss_backward(const OpCall& call) {
  class_shape(call, 1);
  return {fresh(call.tensor(1).dtype, call.tensor(1).shape)};
}

Outputs mse_loss(const OpCall& call) {
  const TensorType types[] = {call.tensor(0), call.tensor(1)};
  const Shape shape = broadcast_shapes(call.type(), types[0].shape, types[1].shape);
  const DType dtype = result_dtype(types);
  if (call.integer_or(2, 1) != kNoReduction) {
    OutputType loss = fresh(dtype, {});
    loss.storage_bytes = contiguous_type(dtype, shape).bytes();  // it held the addends
    return {loss};
  }
  return {fresh(dtype, shape, elementwise_strides(shape, types))};
}

Outputs mse_loss_backward(const OpCall& call) {
  return {fresh(call.tensor(1).dtype, call.tensor(1).shape)};
}

/// Three operations for each element of argument kInput.
template <std::size_t kInput>
double loss_flops(const OpCall& call, std::span<const OutputType>) {
  return 3 * static_cast<double>(call.tensor(kInput).elements());
}

OpDef loss(std::string_view type, Outputs (*infer)(const OpCall&)) {
  return {.type = type, .infer = infer, .cheap = true, .flops = loss_flops<0>};
}

OpDef gradient(std::string_view type, Outputs (*infer)(const OpCall&)) {
  return {.type = type, .infer = infer, .cheap = true, .flops = loss_flops<1>};
}

}  // namespace

std::span<const OpDef> loss_ops() {
  static const OpDef defs[] = {
      loss("aten::nll_loss_forward", nll_loss),
      loss("aten::nll_loss2d_forward", nll_loss),
      loss("aten::mse_loss", mse_loss),
      gradient("aten::nll_loss_backward", nll_loss_backward),
      gradient("aten::nll_loss2d_backward", nll_loss_backward),
      gradient("aten::mse_loss_backward", mse_loss_backward),
  };
  return defs;
}

}  // namespace lowtide::ops
