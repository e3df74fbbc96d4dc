#include <fmt/format.h>

#include "ops/op_def.h"
#include "ops/shapes.h"
#include "ops/strides.h"

/// Ops that draw random numbers, and the gradient that reads the drawn mask.
namespace lowtide::ops {
namespace {

using Outputs = std::vector<OutputType>;

/// The kept elements of the input, scaled, and their mask.
Outputs dropout(const OpCall& call) {
  const TensorType& input = call.tensor(0);
  const double probability = call.number(1);
  if (!(probability >= 0 && probability <= 1)) {
    refuse(call.type(), fmt::format("probability {} is not between 0 and 1", probability));
  }
  const Shape strides = preserved_strides(input);
  return {fresh(input.dtype, input.shape, strides), fresh(DType::boolean, input.shape, strides)};
}

Outputs dropout_backward(const OpCall& call) {
  const TensorType types[] = {call.tensor(0), call.tensor(1)};
  const Shape shape = broadcast_shapes(call.type(), types[0].shape, types[1].shape);
  return {fresh(types[0].dtype, shape, elementwise_strides(shape, types))};
}

}  // namespace

std::span<const OpDef> random_ops() {
  static const OpDef defs[] = {
      {.type = "aten::native_dropout",
       .infer = dropout,
       .pointwise = true,
       .random = true,
       .cheap = true},
      {.type = "aten::native_dropout_backward",
       .infer = dropout_backward,
       .pointwise = true,
       .cheap = true},
  };
  return defs;
}

}  // namespace lowtide::ops
