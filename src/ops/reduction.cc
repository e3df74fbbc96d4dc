#include "ops/op_def.h"
#include "ops/promotion.h"
#include "ops/shapes.h"
#include "ops/strides.h"

/// Reductions over dimensions, and softmax, which reduces inside.
namespace lowtide::ops {
namespace {

using Outputs = std::vector<OutputType>;

/// Sums of integers and booleans are i64.
DType sum_dtype(DType dtype) { return is_floating(dtype) ? dtype : DType::i64; }

OutputType reduced(const OpCall& call, DType dtype) {
  return fresh(dtype, reduced_shape(call.type(), call.tensor(0).shape, call.integers(1),
                                    call.boolean_or(2, false)));
}

Outputs sum_all(const OpCall& call) {
  return {fresh(call.dtype(1, sum_dtype(call.tensor(0).dtype)), {})};
}

Outputs sum_dims(const OpCall& call) {
  return {reduced(call, call.dtype(3, sum_dtype(call.tensor(0).dtype)))};
}

DType mean_dtype(const OpCall& call, std::size_t i) {
  const DType dtype = call.dtype(i, call.tensor(0).dtype);
  if (!is_floating(dtype)) {
    refuse(call.type(), "needs floating-point elements, not " + std::string(name(dtype)));
  }
  return dtype;
}

Outputs mean_all(const OpCall& call) { return {fresh(mean_dtype(call, 1), {})}; }
Outputs mean_dims(const OpCall& call) { return {reduced(call, mean_dtype(call, 3))}; }
Outputs amax(const OpCall& call) { return {reduced(call, call.tensor(0).dtype)}; }

/// Of all elements, or over the dimensions of argument 2.
Outputs vector_norm(const OpCall& call) {
  const TensorType& self = call.tensor(0);
  return {fresh(call.dtype(4, self.dtype), reduced_shape(call.type(), self.shape, call.integers(2),
                                                         call.boolean_or(3, false)))};
}

Outputs argmax(const OpCall& call) {
  std::vector<std::int64_t> dims;
  if (call.has(1)) dims.push_back(call.integer(1));
  return {fresh(DType::i64,
                reduced_shape(call.type(), call.tensor(0).shape, dims, call.boolean_or(2, false)))};
}

Outputs softmax(const OpCall& call) {
  const TensorType& self = call.tensor(0);
  wrap_dim(call.type(), call.integer(1), self.shape.size());
  const bool widen = call.boolean_or(2, false);
  return {fresh(widen ? DType::f32 : self.dtype, self.shape)};
}

Outputs softmax_backward(const OpCall& call) {
  const TensorType& gradient = call.tensor(0);
  return {fresh(call.dtype(3, gradient.dtype), gradient.shape)};
}

double per_input_element(const OpCall& call, std::span<const OutputType>) {
  return static_cast<double>(call.tensor(0).elements());
}

/// Maximum, difference, exponential, sum, quotient.
double softmax_flops(const OpCall& call, std::span<const OutputType>) {
  return 5 * static_cast<double>(call.tensor(0).elements());
}

OpDef reduction(std::string_view type, Outputs (*infer)(const OpCall&)) {
  return {.type = type, .infer = infer, .cheap = true, .flops = per_input_element};
}

OpDef softmax_like(std::string_view type, Outputs (*infer)(const OpCall&)) {
  return {.type = type, .infer = infer, .cheap = true, .flops = softmax_flops};
}

}  // namespace

std::span<const OpDef> reduction_ops() {
  static const OpDef defs[] = {
      reduction("aten::sum", sum_all),
      reduction("aten::sum.dim_IntList", sum_dims),
      reduction("aten::mean", mean_all),
      reduction("aten::mean.dim", mean_dims),
      reduction("aten::amax", amax),
      reduction("aten::linalg_vector_norm", vector_norm),
      reduction("aten::argmax", argmax),
      softmax_like("aten::_softmax", softmax),
      softmax_like("aten::_softmax_backward_data", softmax_backward),
      softmax_like("aten::_log_softmax", softmax),
      softmax_like("aten::_log_softmax_backward_data", softmax_backward),
  };
  return defs;
}

}  // namespace lowtide::ops
