#include <vector>

#include "ops/op_def.h"
#include "ops/promotion.h"
#include "ops/shapes.h"
#include "ops/strides.h"

/// Ops that compute each element of the result from the same element of the operands.
namespace lowtide {
namespace {

using Outputs = std::vector<OutputType>;

std::vector<TensorType> operands(const OpCall& call) {
  std::vector<TensorType> types;
  for (std::size_t i = 0; i < call.size(); ++i) {
    if (call.holds<TensorArg>(i)) types.push_back(call.tensor(i));
  }
  return types;
}

/// One output over the broadcast shape of all tensor arguments.
Outputs elementwise(const OpCall& call, DType dtype) {
  const std::vector<TensorType> types = operands(call);
  Shape shape = call.tensor(0).shape;
  for (const TensorType& t : types) shape = broadcast_shapes(call.type(), shape, t.shape);
  Shape strides = elementwise_strides(shape, types);
  return {fresh(dtype, std::move(shape), std::move(strides))};
}

Outputs same_type(const OpCall& call) { return elementwise(call, call.tensor(0).dtype); }
Outputs boolean(const OpCall& call) { return elementwise(call, DType::boolean); }
Outputs promoted(const OpCall& call) { return elementwise(call, result_dtype(operands(call))); }

Outputs floating(const OpCall& call) {
  return elementwise(call, as_floating(result_dtype(operands(call))));
}

DType with_number(const OpCall& call) {
  return result_dtype(operands(call), number_dtype(call, 1));
}

Outputs promoted_number(const OpCall& call) { return elementwise(call, with_number(call)); }

Outputs floating_number(const OpCall& call) {
  return elementwise(call, as_floating(with_number(call)));
}

Outputs where(const OpCall& call) {
  const TensorType choices[] = {call.tensor(1), call.tensor(2)};
  return elementwise(call, result_dtype(choices));
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
  return {fresh(call.dtype(1, self.dtype), self.shape, copied_strides(self, call.integer_or(6, 1)))};
}

Outputs filled_like(const OpCall& call) {
  const TensorType& self = call.tensor(0);
  return {fresh(call.dtype(1, self.dtype), self.shape, copied_strides(self, call.integer_or(5, 1)))};
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
      kernel("aten::add.Tensor", promoted),
      kernel("aten::sub.Tensor", promoted),
      kernel("aten::mul.Tensor", promoted),
      kernel("aten::div.Tensor", floating),
      kernel("aten::maximum", promoted),
      kernel("aten::minimum", promoted),
      kernel("aten::add.Scalar", promoted_number),
      kernel("aten::sub.Scalar", promoted_number),
      kernel("aten::mul.Scalar", promoted_number),
      kernel("aten::div.Scalar", floating_number),
      kernel("aten::rsub.Scalar", promoted_number),
      kernel("aten::pow.Tensor_Scalar", promoted_number),
      kernel("aten::addcmul", promoted),
      kernel("aten::addcdiv", promoted),

      kernel("aten::neg", same_type),
      kernel("aten::abs", same_type),
      kernel("aten::sign", same_type),
      kernel("aten::sgn", same_type),
      kernel("aten::exp", floating),
      kernel("aten::log", floating),
      kernel("aten::log1p", floating),
      kernel("aten::sin", floating),
      kernel("aten::cos", floating),
      kernel("aten::sqrt", floating),
      kernel("aten::rsqrt", floating),
      kernel("aten::reciprocal", floating),
      kernel("aten::erf", floating),

      kernel("aten::tanh", floating),
      kernel("aten::sigmoid", floating),
      kernel("aten::relu", same_type),
      kernel("aten::hardtanh", same_type),
      kernel("aten::silu", same_type),
      kernel("aten::gelu", same_type),
      kernel("aten::threshold_backward", promoted),
      kernel("aten::tanh_backward", promoted),
      kernel("aten::sigmoid_backward", promoted),
      kernel("aten::hardtanh_backward", promoted),
      kernel("aten::silu_backward", promoted),
      kernel("aten::gelu_backward", promoted),

      kernel("aten::where.self", where),
      maker("aten::masked_fill.Scalar", masked_fill),
      kernel("aten::logical_not", boolean),
      kernel("aten::gt.Scalar", boolean),
      kernel("aten::ge.Scalar", boolean),
      kernel("aten::lt.Scalar", boolean),
      kernel("aten::le.Scalar", boolean),
      kernel("aten::eq.Scalar", boolean),
      kernel("aten::ne.Scalar", boolean),
      kernel("aten::gt.Tensor", boolean),
      kernel("aten::ge.Tensor", boolean),
      kernel("aten::lt.Tensor", boolean),
      kernel("aten::le.Tensor", boolean),
      kernel("aten::eq.Tensor", boolean),
      kernel("aten::ne.Tensor", boolean),

      maker("aten::clone", clone),
      maker("aten::_to_copy", to_copy),
      maker("aten::zeros_like", filled_like),
      maker("aten::ones_like", filled_like),
      maker("aten::full", full),
  };
  return defs;
}

}  // namespace lowtide
