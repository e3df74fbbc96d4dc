#include <vector>

#include "ops/op_def.h"
#include "ops/promotion.h"
#include "ops/shapes.h"
#include "ops/strides.h"

/// Ops that compute each element of the result from the same element of the operands.
namespace lowtide::ops {
namespace {

using Outputs = std::vector<OutputType>;

/// The first `count` arguments, all tensors.
std::vector<TensorType> operands(const OpCall& call, std::size_t count) {
  std::vector<TensorType> types;
  for (std::size_t i = 0; i < count; ++i) types.push_back(call.tensor(i));
  return types;
}

/// One output over the shape to which all operands broadcast.
Outputs elementwise(const OpCall& call, std::span<const TensorType> types, DType dtype) {
  Shape shape = types.front().shape;
  for (const TensorType& t : types) shape = broadcast_shapes(call.type(), shape, t.shape);
  Shape strides = elementwise_strides(shape, types);
  return {fresh(dtype, std::move(shape), std::move(strides))};
}

// Rules for ops whose first kCount arguments are tensors.

template <std::size_t kCount>
Outputs promoted(const OpCall& call) {
  const std::vector<TensorType> types = operands(call, kCount);
  return elementwise(call, types, result_dtype(types));
}

template <std::size_t kCount>
Outputs floating(const OpCall& call) {
  const std::vector<TensorType> types = operands(call, kCount);
  return elementwise(call, types, as_floating(result_dtype(types)));
}

template <std::size_t kCount>
Outputs boolean(const OpCall& call) {
  return elementwise(call, operands(call, kCount), DType::boolean);
}

DType dtype_with_number(const OpCall& call) {
  return result_dtype(operands(call, 1), number_dtype(call, 1));
}

Outputs promoted_number(const OpCall& call) {
  return elementwise(call, operands(call, 1), dtype_with_number(call));
}

/// The number is raised to the elements of the tensor, which is argument 1. The result is
/// contiguous, whatever the tensor is.
Outputs power_of_number(const OpCall& call) {
  const TensorType types[] = {call.tensor(1)};
  return {fresh(result_dtype(types, number_dtype(call, 0)), types[0].shape)};
}

Outputs floating_number(const OpCall& call) {
  return elementwise(call, operands(call, 1), as_floating(dtype_with_number(call)));
}

/// The kernel takes the input before the gradient.
Outputs threshold_backward(const OpCall& call) {
  const TensorType types[] = {call.tensor(1), call.tensor(0)};
  return elementwise(call, types, result_dtype(types));
}

Outputs where(const OpCall& call) {
  const std::vector<TensorType> types = operands(call, 3);
  return elementwise(call, types, result_dtype(std::span(types).subspan(1)));
}

/// A contiguous copy with holes filled.
Outputs masked_fill(const OpCall& call) {
  const TensorType& self = call.tensor(0);
  return {fresh(self.dtype, broadcast_shapes(call.type(), self.shape, call.tensor(1).shape))};
}

Shape copied_strides(const TensorType& type, std::int64_t memory_format) {
  enum { kContiguous = 0, kPreserve = 1, kChannelsLast = 2 };
  switch (memory_format) {
    case kContiguous: return contiguous_strides(type.shape);
    case kChannelsLast: return channels_last_strides(type.shape);
    default: return preserved_strides(type);
  }
}

Outputs clone(const OpCall& call) {
  const TensorType& self = call.tensor(0);
  return {fresh(self.dtype, self.shape, copied_strides(self, call.integer_or(1, 1)))};
}

Outputs to_copy(const OpCall& call) {
  const TensorType& self = call.tensor(0);
  return {
      fresh(call.dtype(1, self.dtype), self.shape, copied_strides(self, call.integer_or(6, 1)))};
}

Outputs filled_like(const OpCall& call) {
  const TensorType& self = call.tensor(0);
  return {
      fresh(call.dtype(1, self.dtype), self.shape, copied_strides(self, call.integer_or(5, 1)))};
}

Outputs full(const OpCall& call) {
  return {fresh(call.dtype(2, number_dtype(call, 1)), call.integers(0))};
}

using Rule = Outputs (*)(const OpCall&);

OpDef kernel(std::string_view type, Rule infer) {
  return {.type = type, .infer = infer, .pointwise = true, .cheap = true};
}

/// Makes new tensors without an element-by-element kernel.
OpDef maker(std::string_view type, Rule infer) {
  return {.type = type, .infer = infer, .cheap = true};
}

}  // namespace

std::span<const OpDef> pointwise_ops() {
  static const OpDef defs[] = {
      kernel("aten::add.Tensor", promoted<2>),
      kernel("aten::sub.Tensor", promoted<2>),
      kernel("aten::mul.Tensor", promoted<2>),
      kernel("aten::div.Tensor", floating<2>),
      kernel("aten::maximum", promoted<2>),
      kernel("aten::minimum", promoted<2>),
      kernel("aten::add.Scalar", promoted_number),
      kernel("aten::sub.Scalar", promoted_number),
      kernel("aten::mul.Scalar", promoted_number),
      kernel("aten::div.Scalar", floating_number),
      kernel("aten::rsub.Scalar", promoted_number),
      kernel("aten::pow.Tensor_Scalar", promoted_number),
      kernel("aten::lerp.Scalar", promoted<2>),
      kernel("aten::addcmul", promoted<3>),
      kernel("aten::addcdiv", promoted<3>),

      kernel("aten::neg", promoted<1>),
      kernel("aten::abs", promoted<1>),
      kernel("aten::sign", promoted<1>),
      kernel("aten::sgn", promoted<1>),
      kernel("aten::exp", floating<1>),
      kernel("aten::log", floating<1>),
      kernel("aten::log1p", floating<1>),
      kernel("aten::sin", floating<1>),
      kernel("aten::cos", floating<1>),
      kernel("aten::sqrt", floating<1>),
      kernel("aten::rsqrt", floating<1>),
      kernel("aten::reciprocal", floating<1>),
      kernel("aten::erf", floating<1>),

      kernel("aten::tanh", floating<1>),
      kernel("aten::sigmoid", floating<1>),
      kernel("aten::relu", promoted<1>),
      kernel("aten::hardtanh", promoted<1>),
      kernel("aten::silu", promoted<1>),
      kernel("aten::gelu", promoted<1>),
      kernel("aten::threshold_backward", threshold_backward),
      kernel("aten::tanh_backward", promoted<2>),
      kernel("aten::sigmoid_backward", promoted<2>),
      kernel("aten::hardtanh_backward", promoted<2>),
      kernel("aten::silu_backward", promoted<2>),
      kernel("aten::gelu_backward", promoted<2>),

      kernel("aten::where.self", where),
      maker("aten::masked_fill.Scalar", masked_fill),
      kernel("aten::logical_not", boolean<1>),
      kernel("aten::gt.Scalar", boolean<1>),
      kernel("aten::ge.Scalar", boolean<1>),
      kernel("aten::lt.Scalar", boolean<1>),
      kernel("aten::le.Scalar", boolean<1>),
      kernel("aten::eq.Scalar", boolean<1>),
      kernel("aten::ne.Scalar", boolean<1>),
      kernel("aten::gt.Tensor", boolean<2>),
      kernel("aten::ge.Tensor", boolean<2>),
      kernel("aten::lt.Tensor", boolean<2>),
      kernel("aten::le.Tensor", boolean<2>),
      kernel("aten::eq.Tensor", boolean<2>),
      kernel("aten::ne.Tensor", boolean<2>),

      maker("aten::clone", clone),
      maker("aten::_to_copy", to_copy),
      maker("aten::zeros_like", filled_like),
      maker("aten::ones_like", filled_like),
      maker("aten::full", full),
      maker("aten::pow.Scalar", power_of_number),
  };
  return defs;
}

}  // namespace lowtide::ops
