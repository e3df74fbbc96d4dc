#include <fmt/format.h>

#include "ops/op_def.h"
#include "ops/shapes.h"
#include "ops/strides.h"

/// Pooling, unpooling and resizing of N x C x H x W planes.
namespace lowtide::ops {
namespace {

using Outputs = std::vector<OutputType>;
using Sizes = std::vector<std::int64_t>;

struct Window {
  Sizes kernel, stride, padding, dilation;
  bool ceil_mode;

  std::int64_t size_out(std::int64_t size, std::size_t dim) const {
    const std::int64_t pad = per_dim(padding, dim);
    const std::int64_t step = per_dim(stride, dim);
    const std::int64_t room =
        size + 2 * pad - per_dim(dilation, dim) * (per_dim(kernel, dim) - 1) - 1;
    if (room < 0) return 0;
    const std::int64_t count = (room + (ceil_mode ? step - 1 : 0)) / step + 1;
    const bool starts_in_padding = ceil_mode && (count - 1) * step >= size + pad;
    return starts_in_padding ? count - 1 : count;
  }
};

Sizes or_else(const Sizes& given, const Sizes& otherwise) {
  return given.empty() ? otherwise : given;
}

/// Planes of another height and width.
Shape resized(const OpCall& call, std::size_t i, std::int64_t height, std::int64_t width) {
  Shape shape = tensor_of_rank(call, i, 4).shape;
  if (height < 1 || width < 1) {
    refuse(call.type(), fmt::format("planes of shape {} would become {} x {}", format_shape(shape),
                                    height, width));
  }
  shape[2] = height;
  shape[3] = width;
  return shape;
}

OutputType like_input(const OpCall& call, std::size_t i, Shape shape) {
  const TensorType& input = call.tensor(i);
  Shape strides = suggested_strides(shape, input);
  return fresh(input.dtype, std::move(shape), std::move(strides));
}

OutputType pooled(const OpCall& call, const Window& window) {
  const Shape& shape = tensor_of_rank(call, 0, 4).shape;
  return like_input(call, 0,
                    resized(call, 0, window.size_out(shape[2], 0), window.size_out(shape[3], 1)));
}

Outputs max_pool(const OpCall& call) {
  const Sizes kernel = call.integers(1);
  const Window window{kernel, or_else(call.integers(2), kernel), or_else(call.integers(3), {0}),
                      or_else(call.integers(4), {1}), call.boolean_or(5, false)};
  OutputType values = pooled(call, window);
  OutputType indices = values;
  indices.type.dtype = DType::i64;
  return {values, indices};
}

Outputs avg_pool(const OpCall& call) {
  const Sizes kernel = call.integers(1);
  return {pooled(call, {kernel,
                        or_else(call.integers(2), kernel),
                        or_else(call.integers(3), {0}),
                        {1},
                        call.boolean_or(4, false)})};
}

/// The gradient of argument 1, with the same layout.
Outputs like_argument_1(const OpCall& call) {
  return {like_input(call, 1, tensor_of_rank(call, 1, 4).shape)};
}

/// The output size is argument kSize.
template <std::size_t kSize>
Outputs to_size(const OpCall& call) {
  const Sizes size = call.integers(kSize);
  return {like_input(call, 0, resized(call, 0, per_dim(size, 0), per_dim(size, 1)))};
}

Outputs max_unpool(const OpCall& call) {
  if (call.tensor(0).shape != call.tensor(1).shape) {
    refuse(call.type(),
           fmt::format("values {} and indices {} differ in shape",
                       format_shape(call.tensor(0).shape), format_shape(call.tensor(1).shape)));
  }
  return to_size<2>(call);
}

/// The gradient of a resized plane of the shape that argument 2 gives.
Outputs upsample_backward(const OpCall& call) { return {like_input(call, 0, call.integers(2))}; }

/// Each element of the window is looked at once.
double window_flops(const OpCall& call, std::span<const OutputType> outputs) {
  const Sizes kernel = call.integers(1);
  return static_cast<double>(per_dim(kernel, 0) * per_dim(kernel, 1)) *
         static_cast<double>(outputs[0].type.elements());
}

/// Work in proportion to argument 0, the larger side.
double input_flops(const OpCall& call, std::span<const OutputType>) {
  return static_cast<double>(call.tensor(0).elements());
}

/// Four weighted neighbours.
double bilinear_flops(const OpCall& call, std::span<const OutputType> outputs) {
  return 8.0 * static_cast<double>(std::max(call.tensor(0).elements(), outputs[0].type.elements()));
}

}  // namespace

std::span<const OpDef> pooling_ops() {
  static const OpDef defs[] = {
      {.type = "aten::max_pool2d_with_indices",
       .infer = max_pool,
       .cheap = true,
       .flops = window_flops},
      {.type = "aten::max_pool2d_with_indices_backward", .infer = like_argument_1, .cheap = true},
      {.type = "aten::avg_pool2d", .infer = avg_pool, .cheap = true, .flops = window_flops},
      {.type = "aten::avg_pool2d_backward", .infer = like_argument_1, .cheap = true},
      {.type = "aten::_adaptive_avg_pool2d",
       .infer = to_size<1>,
       .cheap = true,
       .flops = input_flops},
      {.type = "aten::_adaptive_avg_pool2d_backward", .infer = like_argument_1, .cheap = true},
      {.type = "aten::max_unpool2d", .infer = max_unpool, .cheap = true},
      {.type = "aten::upsample_nearest2d", .infer = to_size<1>, .cheap = true},
      {.type = "aten::upsample_nearest2d_backward",
       .infer = upsample_backward,
       .cheap = true,
       .flops = input_flops},
      {.type = "aten::upsample_bilinear2d",
       .infer = to_size<1>,
       .cheap = true,
       .flops = bilinear_flops},
      {.type = "aten::upsample_bilinear2d_backward",
       .infer = upsample_backward,
       .cheap = true,
       .flops = bilinear_flops},
  };
  return defs;
}

}  // namespace lowtide::ops
