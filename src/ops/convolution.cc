#include <fmt/format.h>

#include "ops/op_def.h"
#include "ops/shapes.h"
#include "ops/strides.h"

/// Convolutions and their gradients over any number of spatial dimensions.
namespace lowtide::ops {
namespace {

using Outputs = std::vector<OutputType>;

/// The last arguments of the convolution and of its gradient, from index `first` on.
struct Geometry {
  Geometry(const OpCall& call, std::size_t first)
      : stride(call.integers(first)),
        padding(call.integers(first + 1)),
        dilation(call.integers(first + 2)),
        transposed(call.boolean(first + 3)),
        output_padding(call.integers(first + 4)),
        groups(call.integer(first + 5)) {}

  std::vector<std::int64_t> stride, padding, dilation;
  bool transposed;
  std::vector<std::int64_t> output_padding;
  std::int64_t groups;

  /// Output channels of a weight of this shape.
  std::int64_t channels_out(const Shape& weight) const {
    return transposed ? weight[1] * groups : weight[0];
  }
  std::int64_t channels_in(const Shape& weight) const {
    return transposed ? weight[0] : weight[1] * groups;
  }
  std::int64_t size_out(std::int64_t size, std::int64_t kernel, std::size_t dim) const {
    const std::int64_t reach = per_dim(dilation, dim) * (kernel - 1);
    const std::int64_t pad = 2 * per_dim(padding, dim);
    const std::int64_t step = per_dim(stride, dim);
    return transposed ? (size - 1) * step - pad + reach + per_dim(output_padding, dim) + 1
                      : (size + pad - reach - 1) / step + 1;
  }
};

void check(const OpCall& call, const Geometry& geometry, const Shape& input, const Shape& weight) {
  if (input.size() < 3 || weight.size() != input.size() || geometry.groups < 1 ||
      weight[0] % geometry.groups != 0 || geometry.channels_in(weight) != input[1]) {
    refuse(call.type(), fmt::format("input {} and weight {} with {} groups do not fit",
                                    format_shape(input), format_shape(weight), geometry.groups));
  }
}

/// The layout that the kernels choose, given the layouts of input and weight.
Shape chosen_strides(const Shape& shape, const TensorType& input, const TensorType& weight) {
  return suggested_strides(shape, suggests_channels_last(weight) ? weight : input);
}

/// The layout of the weight's gradient: a weight with both layouts keeps its strides.
Shape weight_strides(const TensorType& input, const TensorType& weight) {
  const Shape chosen = chosen_strides(weight.shape, input, weight);
  const TensorType same_memory{weight.dtype, weight.shape, chosen};
  return weight.contiguous() && same_memory.contiguous() ? weight.strides : chosen;
}

Outputs convolution(const OpCall& call) {
  const TensorType& input = call.tensor(0);
  const TensorType& weight = call.tensor(1);
  const Geometry geometry(call, 3);
  check(call, geometry, input.shape, weight.shape);
  Shape shape = {input.shape[0], geometry.channels_out(weight.shape)};
  for (std::size_t i = 2; i < input.shape.size(); ++i) {
    shape.push_back(geometry.size_out(input.shape[i], weight.shape[i], i - 2));
    if (shape.back() < 1) {
      refuse(call.type(), fmt::format("the kernel {} is larger than the padded input {}",
                                      format_shape(weight.shape), format_shape(input.shape)));
    }
  }
  Shape strides = chosen_strides(shape, input, weight);
  return {fresh(input.dtype, std::move(shape), std::move(strides))};
}

/// The gradients of input, weight and bias that the mask asks for.
Outputs convolution_backward(const OpCall& call) {
  const TensorType& input = call.tensor(1);
  const TensorType& weight = call.tensor(2);
  const Geometry geometry(call, 4);
  check(call, geometry, input.shape, weight.shape);
  const std::vector<std::int64_t> mask = call.integers(10);
  Outputs outputs;
  if (mask.at(0)) {
    outputs.push_back(fresh(input.dtype, input.shape, chosen_strides(input.shape, input, weight)));
  }
  if (mask.at(1)) {
    outputs.push_back(fresh(weight.dtype, weight.shape, weight_strides(input, weight)));
  }
  if (mask.at(2)) outputs.push_back(fresh(weight.dtype, {geometry.channels_out(weight.shape)}));
  return outputs;
}

/// A multiplication and an addition of each weight at each position of the kernel.
double convolution_work(const Geometry& geometry, const Shape& input, const Shape& output,
                        const Shape& weight) {
  const Shape& places = geometry.transposed ? input : output;
  const auto spatial = static_cast<double>(count_elements(places)) / static_cast<double>(places[1]);
  return 2 * spatial * static_cast<double>(count_elements(weight));
}

double convolution_flops(const OpCall& call, std::span<const OutputType> outputs) {
  return convolution_work(Geometry(call, 3), call.tensor(0).shape, outputs[0].type.shape,
                          call.tensor(1).shape);
}

/// The same again for each of the two large gradients.
double backward_flops(const OpCall& call, std::span<const OutputType>) {
  const std::vector<std::int64_t> mask = call.integers(10);
  const double once = convolution_work(Geometry(call, 4), call.tensor(1).shape,
                                       call.tensor(0).shape, call.tensor(2).shape);
  return once * static_cast<double>(mask.at(0) + mask.at(1));
}

}  // namespace

std::span<const OpDef> convolution_ops() {
  static const OpDef defs[] = {
      {.type = "aten::convolution", .infer = convolution, .flops = convolution_flops},
      {.type = "aten::convolution_backward",
       .infer = convolution_backward,
       .flops = backward_flops},
  };
  return defs;
}

}  // namespace lowtide::ops
