#include <fmt/format.h>

#include <algorithm>

#include "ops/op_def.h"
#include "ops/shapes.h"
#include "ops/strides.h"

/// Normalizations and their gradients.
namespace lowtide::ops {
namespace {

using Outputs = std::vector<OutputType>;

/// Statistics are kept in the type of the data, and in f32 where the parameters from argument
/// `first` to `last` are: so it is under autocast.
DType statistics_dtype(const OpCall& call, std::size_t first, std::size_t last) {
  for (std::size_t i = first; i <= last; ++i) {
    if (call.has(i) && call.tensor(i).dtype == DType::f32) return DType::f32;
  }
  return call.tensor(0).dtype;
}

void check_channels(const OpCall& call, std::size_t i, std::int64_t channels) {
  if (call.has(i) && call.tensor(i).elements() != channels) {
    refuse(call.type(), fmt::format("argument {} of shape {} does not fit {} channels", i,
                                    format_shape(call.tensor(i).shape), channels));
  }
}

std::int64_t channels_of(const OpCall& call, const TensorType& input) {
  if (input.shape.size() < 2) {
    refuse(call.type(),
           "needs at least 2 dimensions, but the shape is " + format_shape(input.shape));
  }
  return input.shape[1];
}

/// Result, means and inverse deviations per channel; in inference no statistics.
Outputs batch_norm(const OpCall& call) {
  const TensorType& input = call.tensor(0);
  const std::int64_t channels = channels_of(call, input);
  for (std::size_t i = 1; i <= 4; ++i) check_channels(call, i, channels);
  const DType dtype = statistics_dtype(call, 1, 4);
  const std::int64_t saved = call.boolean(5) ? channels : 0;
  return {fresh(input.dtype, input.shape, suggested_strides(input.shape, input)),
          fresh(dtype, {saved}), fresh(dtype, {saved})};
}

/// The wanted gradients among those of the input and of two tensors of shape `parameters`.
Outputs masked(const std::vector<std::int64_t>& mask, OutputType input, DType dtype,
               const Shape& parameters) {
  Outputs outputs;
  if (mask.at(0)) outputs.push_back(std::move(input));
  if (mask.at(1)) outputs.push_back(fresh(dtype, parameters));
  if (mask.at(2)) outputs.push_back(fresh(dtype, parameters));
  return outputs;
}

DType parameter_dtype(const OpCall& call, std::size_t i, const TensorType& input) {
  return call.has(i) ? call.tensor(i).dtype : input.dtype;
}

Outputs batch_norm_backward(const OpCall& call) {
  const TensorType& input = call.tensor(1);
  return masked(call.integers(9),
                fresh(input.dtype, input.shape, suggested_strides(input.shape, input)),
                parameter_dtype(call, 2, input), {channels_of(call, input)});
}

/// Result, means and inverse deviations, one per normalized group of elements.
Outputs layer_norm(const OpCall& call) {
  const TensorType& input = call.tensor(0);
  const Shape normalized = call.integers(1);
  const auto& shape = input.shape;
  if (normalized.empty() || normalized.size() > shape.size() ||
      !std::equal(normalized.rbegin(), normalized.rend(), shape.rbegin())) {
    refuse(call.type(), fmt::format("shape {} does not end in the normalized {}",
                                    format_shape(shape), format_shape(normalized)));
  }
  for (std::size_t i : {2, 3}) check_channels(call, i, count_elements(normalized));
  Shape statistics = shape;
  std::fill_n(statistics.rbegin(), normalized.size(), 1);
  const DType dtype = statistics_dtype(call, 2, 3);
  return {fresh(input.dtype, shape), fresh(dtype, statistics), fresh(dtype, statistics)};
}

Outputs layer_norm_backward(const OpCall& call) {
  const TensorType& input = call.tensor(1);
  return masked(call.integers(7), fresh(input.dtype, input.shape), parameter_dtype(call, 5, input),
                call.integers(2));
}

Outputs group_norm(const OpCall& call) {
  const TensorType& input = call.tensor(0);
  const std::int64_t channels = call.integer(4);
  const std::int64_t groups = call.integer(6);
  if (groups < 1 || channels % groups != 0 || channels_of(call, input) != channels) {
    refuse(call.type(), fmt::format("shape {} cannot be normalized as {} channels in {} groups",
                                    format_shape(input.shape), channels, groups));
  }
  for (std::size_t i : {1, 2}) check_channels(call, i, channels);
  const Shape statistics = {call.integer(3), groups};
  const DType dtype = statistics_dtype(call, 1, 2);
  return {fresh(input.dtype, input.shape, suggested_strides(input.shape, input)),
          fresh(dtype, statistics), fresh(dtype, statistics)};
}

Outputs group_norm_backward(const OpCall& call) {
  const TensorType& input = call.tensor(1);
  return masked(call.integers(9),
                fresh(input.dtype, input.shape, suggested_strides(input.shape, input)),
                parameter_dtype(call, 4, input), {channels_of(call, input)});
}

/// A handful of operations per element: mean, variance, scale, shift.
template <std::size_t kInput, int kPerElement>
double normalization_flops(const OpCall& call, std::span<const OutputType>) {
  return kPerElement * static_cast<double>(call.tensor(kInput).elements());
}

}  // namespace

std::span<const OpDef> normalization_ops() {
  static const OpDef defs[] = {
      {.type = "aten::native_batch_norm",
       .infer = batch_norm,
       .cheap = true,
       .mutates = {3, 4},
       .flops = normalization_flops<0, 6>},
      {.type = "aten::native_batch_norm_backward",
       .infer = batch_norm_backward,
       .cheap = true,
       .flops = normalization_flops<1, 10>},
      {.type = "lowtide::cudnn_batch_norm",
       .infer = batch_norm,
       .cheap = true,
       .mutates = {3, 4},
       .flops = normalization_flops<0, 6>},
      {.type = "lowtide::cudnn_batch_norm_backward",
       .infer = batch_norm_backward,
       .cheap = true,
       .flops = normalization_flops<1, 10>},
      {.type = "aten::native_layer_norm",
       .infer = layer_norm,
       .cheap = true,
       .flops = normalization_flops<0, 6>},
      {.type = "aten::native_layer_norm_backward",
       .infer = layer_norm_backward,
       .cheap = true,
       .flops = normalization_flops<1, 10>},
      {.type = "aten::native_group_norm",
       .infer = group_norm,
       .cheap = true,
       .flops = normalization_flops<0, 6>},
      {.type = "aten::native_group_norm_backward",
       .infer = group_norm_backward,
       .cheap = true,
       .flops = normalization_flops<1, 10>},
  };
  return defs;
}

}  // namespace lowtide::ops
