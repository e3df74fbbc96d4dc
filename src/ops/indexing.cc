#include <fmt/format.h>

#include <algorithm>

#include "ops/op_def.h"
#include "ops/promotion.h"
#include "ops/shapes.h"
#include "ops/strides.h"

/// Joining, padding, gathering and scattering.
namespace lowtide::ops {
namespace {

using Outputs = std::vector<OutputType>;

void require_parts(const OpCall& call, const std::vector<TensorType>& parts) {
  if (parts.empty()) refuse(call.type(), "needs at least one tensor");
}

[[noreturn]] void refuse_pair(const OpCall& call, const Shape& a, const Shape& b) {
  refuse(call.type(), fmt::format("shapes {} and {} do not fit", format_shape(a), format_shape(b)));
}

/// Channels last only when every part is channels last.
Shape joined_strides(const Shape& shape, const std::vector<TensorType>& parts) {
  const bool all = std::ranges::all_of(parts, suggests_channels_last);
  return all ? channels_last_strides(shape) : contiguous_strides(shape);
}

Outputs cat(const OpCall& call) {
  const std::vector<TensorType> parts = call.tensors(0);
  require_parts(call, parts);
  Shape shape = parts.front().shape;
  const std::size_t dim = wrap_dim(call.type(), call.integer_or(1, 0), shape.size());
  std::int64_t size = 0;
  for (const TensorType& part : parts) {
    Shape rest = part.shape;
    if (rest.size() != shape.size()) refuse_pair(call, shape, part.shape);
    size += rest.at(dim);
    rest[dim] = shape[dim];
    if (rest != shape) refuse_pair(call, shape, part.shape);
  }
  shape[dim] = size;
  return {fresh(result_dtype(parts), shape, joined_strides(shape, parts))};
}

Outputs stack(const OpCall& call) {
  const std::vector<TensorType> parts = call.tensors(0);
  require_parts(call, parts);
  Shape shape = parts.front().shape;
  for (const TensorType& part : parts) {
    if (part.shape != shape) refuse_pair(call, shape, part.shape);
  }
  const std::size_t dim = wrap_dim(call.type(), call.integer_or(1, 0), shape.size() + 1);
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(dim),
               static_cast<std::int64_t>(parts.size()));
  return {fresh(result_dtype(parts), std::move(shape))};
}

/// The input, padded by the pairs (before, after) in argument 1, from the last dimension on.
Outputs pad(const OpCall& call) {
  const TensorType& self = call.tensor(0);
  const std::vector<std::int64_t> amounts = call.integers(1);
  Shape shape = self.shape;
  if (amounts.size() % 2 != 0 || amounts.size() / 2 > shape.size()) {
    refuse(call.type(), fmt::format("padding {} does not fit shape {}", format_shape(amounts),
                                    format_shape(shape)));
  }
  for (std::size_t i = 0; i < amounts.size() / 2; ++i) {
    std::int64_t& size = shape[shape.size() - 1 - i];
    size += amounts[2 * i] + amounts[2 * i + 1];
    if (size < 0) {
      refuse(call.type(), fmt::format("padding {} takes more than shape {} has",
                                      format_shape(amounts), format_shape(self.shape)));
    }
  }
  return {fresh(self.dtype, shape, suggested_strides(shape, self))};
}

/// Zeros of the size in argument 1, with the gradient at its position.
Outputs embedded(const OpCall& call) { return {fresh(call.tensor(0).dtype, call.integers(1))}; }

Shape rows_shape(const Shape& indices, std::int64_t width) {
  Shape shape = indices;
  shape.push_back(width);
  return shape;
}

Outputs embedding(const OpCall& call) {
  const TensorType& weight = tensor_of_rank(call, 0, 2);
  return {fresh(weight.dtype, rows_shape(call.tensor(1).shape, weight.shape[1]))};
}

Outputs embedding_backward(const OpCall& call) {
  const TensorType& gradient = call.tensor(0);
  const Shape& indices = call.tensor(1).shape;
  if (gradient.shape.empty() || rows_shape(indices, gradient.shape.back()) != gradient.shape) {
    refuse_pair(call, gradient.shape, indices);
  }
  return {fresh(gradient.dtype, {call.integer(2), gradient.shape.back()})};
}

/// Checks that the index's shape is within the source's in all other dimensions.
void check_index(const OpCall& call, const Shape& index, const Shape& source, bool all_dims) {
  const std::size_t dim = wrap_dim(call.type(), call.integer(1), source.size());
  bool fits = index.size() == source.size();
  for (std::size_t i = 0; fits && i < index.size(); ++i) {
    fits = index[i] <= source[i] || (i == dim && !all_dims);
  }
  if (!fits) refuse_pair(call, source, index);
}

Outputs gather(const OpCall& call) {
  const Shape& index = call.tensor(2).shape;
  check_index(call, index, call.tensor(0).shape, false);
  return {fresh(call.tensor(0).dtype, index)};
}

Outputs scatter(const OpCall& call) {
  const TensorType& self = call.tensor(0);
  const Shape& index = call.tensor(2).shape;
  check_index(call, index, self.shape, false);
  check_index(call, index, call.tensor(3).shape, true);
  return {fresh(self.dtype, self.shape)};
}

Outputs index_select(const OpCall& call) {
  const TensorType& self = call.tensor(0);
  const std::size_t dim = wrap_dim(call.type(), call.integer(1), self.shape.size());
  Shape shape = self.shape;
  if (!shape.empty()) shape[dim] = call.tensor(2).elements();
  return {fresh(self.dtype, std::move(shape))};
}

double per_gradient_element(const OpCall& call, std::span<const OutputType>) {
  return static_cast<double>(call.tensor(0).elements());
}

OpDef moving(std::string_view type, Outputs (*infer)(const OpCall&)) {
  return {.type = type, .infer = infer, .cheap = true, .flops = no_flops};
}

}  // namespace

std::span<const OpDef> indexing_ops() {
  static const OpDef defs[] = {
      moving("aten::cat", cat),
      moving("aten::stack", stack),
      moving("aten::constant_pad_nd", pad),
      moving("aten::slice_backward", embedded),
      moving("aten::select_backward", embedded),
      moving("aten::embedding", embedding),
      {.type = "aten::embedding_dense_backward",
       .infer = embedding_backward,
       .cheap = true,
       .flops = per_gradient_element},
      moving("aten::gather", gather),
      moving("aten::scatter.src", scatter),
      moving("aten::scatter_add", scatter),
      moving("aten::index_select", index_select),
  };
  return defs;
}

}  // namespace lowtide::ops
