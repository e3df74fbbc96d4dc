#include <fmt/format.h>

#include "base/error.h"
#include "builder/apply.h"
#include "builder/functions.h"
#include "ops/shapes.h"

/// Reductions, softmax and normalizations.
namespace lowtide {

Value batch_norm(Value x, Value weight, Value bias, Value running_mean, Value running_var,
                 double momentum, double epsilon) {
  return x.builder().call("aten::native_batch_norm",
                          {x, weight, bias, running_mean, running_var, true, momentum, epsilon})[0];
}

Value layer_norm(Value x, Value weight, Value bias, double epsilon) {
  return x.builder().call("aten::native_layer_norm", {x, weight.shape(), weight, bias, epsilon})[0];
}

Value sum(Value x, std::vector<std::int64_t> dims, bool keep_dims) {
  if (dims.empty() && !keep_dims) return apply("aten::sum", {x});
  return apply("aten::sum.dim_IntList", {x, std::move(dims), keep_dims});
}

Value mean(Value x, std::vector<std::int64_t> dims, bool keep_dims) {
  if (dims.empty() && !keep_dims) return apply("aten::mean", {x});
  return apply("aten::mean.dim", {x, std::move(dims), keep_dims});
}

Value amax(Value x, std::vector<std::int64_t> dims, bool keep_dims) {
  return apply("aten::amax", {x, std::move(dims), keep_dims});
}

Value softmax(Value x, std::int64_t dim) { return apply("aten::_softmax", {x, dim, false}); }

Value log_softmax(Value x, std::int64_t dim) {
  return apply("aten::_log_softmax", {x, dim, false});
}

Value sum_to(Value x, const Shape& shape) {
  if (x.shape() == shape) return x;
  if (ops::broadcast_shapes("sum_to", shape, x.shape()) != x.shape()) {
    throw InputError(fmt::format("sum_to: {} does not broadcast to {}", ops::format_shape(shape),
                                 ops::format_shape(x.shape())));
  }
  const std::size_t lead = x.shape().size() - shape.size();
  std::vector<std::int64_t> dims;
  for (std::size_t i = 0; i < x.shape().size(); ++i) {
    const bool repeated = i < lead || (shape[i - lead] == 1 && x.shape()[i] != 1);
    if (repeated) dims.push_back(static_cast<std::int64_t>(i));
  }
  return reshape(sum(x, std::move(dims), true), shape);
}

}  // namespace lowtide
