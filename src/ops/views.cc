#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ops/op_def.h"
#include "ops/shapes.h"
#include "ops/strides.h"

/// Ops whose results share the memory of their first argument.
namespace lowtide::ops {
namespace {

using Outputs = std::vector<OutputType>;

/// The argument's memory with another shape and strides.
OutputType view_of(const OpCall& call, Shape shape, Shape strides) {
  return {TensorType{call.tensor(0).dtype, std::move(shape), std::move(strides)}, call.position(0)};
}

std::size_t dim_arg(const OpCall& call, std::int64_t dim) {
  return wrap_dim(call.type(), dim, call.tensor(0).shape.size());
}

Outputs detach(const OpCall& call) {
  const TensorType& self = call.tensor(0);
  return {view_of(call, self.shape, self.strides)};
}

Outputs view(const OpCall& call) {
  const TensorType& self = call.tensor(0);
  Shape shape = infer_sizes(call.type(), call.integers(1), self.elements());
  auto strides = view_strides(self, shape);
  if (!strides) {
    refuse(call.type(),
           fmt::format("shape {} with strides {} cannot be seen as {} without a copy; "
                       "use reshape",
                       format_shape(self.shape), format_shape(self.strides), format_shape(shape)));
  }
  return {view_of(call, std::move(shape), std::move(*strides))};
}

Outputs permuted(const OpCall& call, std::span<const std::size_t> dims) {
  const TensorType& self = call.tensor(0);
  Shape shape;
  Shape strides;
  for (std::size_t dim : dims) {
    shape.push_back(self.shape[dim]);
    strides.push_back(self.strides[dim]);
  }
  return {view_of(call, std::move(shape), std::move(strides))};
}

Outputs permute(const OpCall& call) {
  const std::size_t rank = call.tensor(0).shape.size();
  std::vector<std::size_t> dims;
  for (std::int64_t dim : call.integers(1)) dims.push_back(dim_arg(call, dim));
  std::vector<std::size_t> sorted = dims;
  std::ranges::sort(sorted);
  const bool twice = std::ranges::adjacent_find(sorted) != sorted.end();
  if (dims.size() != rank || twice) {
    refuse(call.type(), fmt::format("{} does not name each of the {} dimensions once",
                                    format_shape(call.integers(1)), rank));
  }
  return permuted(call, dims);
}

Outputs swapped(const OpCall& call, std::size_t a, std::size_t b) {
  std::vector<std::size_t> dims(call.tensor(0).shape.size());
  std::iota(dims.begin(), dims.end(), std::size_t{0});
  if (a != b) std::swap(dims[a], dims[b]);
  return permuted(call, dims);
}

Outputs transpose(const OpCall& call) {
  return swapped(call, dim_arg(call, call.integer(1)), dim_arg(call, call.integer(2)));
}

Outputs t(const OpCall& call) {
  const Shape& shape = call.tensor(0).shape;
  if (shape.size() > 2) {
    refuse(call.type(), "needs at most 2 dimensions, but the shape is " + format_shape(shape));
  }
  return swapped(call, 0, shape.size() == 2 ? 1 : 0);
}

Outputs unsqueeze(const OpCall& call) {
  const TensorType& self = call.tensor(0);
  const std::size_t dim = wrap_dim(call.type(), call.integer(1), self.shape.size() + 1);
  const bool last = dim == self.shape.size();
  const std::int64_t stride = last ? 1 : self.shape[dim] * self.strides[dim];
  OutputType out = view_of(call, self.shape, self.strides);
  out.type.shape.insert(out.type.shape.begin() + static_cast<std::ptrdiff_t>(dim), 1);
  out.type.strides.insert(out.type.strides.begin() + static_cast<std::ptrdiff_t>(dim), stride);
  return {out};
}

OutputType without_dim(const OpCall& call, std::size_t dim) {
  const TensorType& self = call.tensor(0);
  OutputType out = view_of(call, self.shape, self.strides);
  out.type.shape.erase(out.type.shape.begin() + static_cast<std::ptrdiff_t>(dim));
  out.type.strides.erase(out.type.strides.begin() + static_cast<std::ptrdiff_t>(dim));
  return out;
}

Outputs squeeze(const OpCall& call) {
  const std::size_t dim = dim_arg(call, call.integer(1));
  const Shape& shape = call.tensor(0).shape;
  return dim < shape.size() && shape[dim] == 1 ? Outputs{without_dim(call, dim)} : detach(call);
}

Outputs expand(const OpCall& call) {
  const TensorType& self = call.tensor(0);
  Shape shape = call.integers(1);
  if (shape.size() < self.shape.size()) {
    refuse(call.type(), fmt::format("shape {} cannot expand to the fewer dimensions of {}",
                                    format_shape(self.shape), format_shape(shape)));
  }
  const std::size_t lead = shape.size() - self.shape.size();
  Shape strides(shape.size());
  for (std::size_t i = shape.size(); i-- > 0;) {
    const bool added = i < lead;
    const std::int64_t size = added ? 1 : self.shape[i - lead];
    const std::int64_t outer = i + 1 < shape.size() ? shape[i + 1] * strides[i + 1] : 1;
    if (shape[i] == -1 && !added) shape[i] = size;
    if (shape[i] != size && size != 1) {
      refuse(call.type(), fmt::format("shape {} cannot expand to {}", format_shape(self.shape),
                                      format_shape(call.integers(1))));
    }
    strides[i] = shape[i] != size ? 0 : (added ? outer : self.strides[i - lead]);
  }
  return {view_of(call, std::move(shape), std::move(strides))};
}

/// `size` elements of a dimension, every step-th.
OutputType narrowed(const OpCall& call, std::size_t dim, std::int64_t size, std::int64_t step = 1) {
  const TensorType& self = call.tensor(0);
  OutputType out = view_of(call, self.shape, self.strides);
  out.type.shape.at(dim) = size;
  out.type.strides.at(dim) *= step;
  return out;
}

std::int64_t clamp_index(std::int64_t index, std::int64_t size) {
  return std::clamp<std::int64_t>(index < 0 ? index + size : index, 0, size);
}

Outputs slice(const OpCall& call) {
  const std::size_t dim = dim_arg(call, call.integer_or(1, 0));
  const std::int64_t size = call.tensor(0).shape.at(dim);
  const std::int64_t begin = clamp_index(call.integer_or(2, 0), size);
  const std::int64_t end = std::max(begin, clamp_index(call.integer_or(3, size), size));
  const std::int64_t step = call.integer_or(4, 1);
  if (step < 1) refuse(call.type(), fmt::format("step {} must be positive", step));
  return {narrowed(call, dim, (end - begin + step - 1) / step, step)};
}

Outputs select(const OpCall& call) {
  const std::size_t dim = dim_arg(call, call.integer(1));
  const Shape& shape = call.tensor(0).shape;
  const std::int64_t index = call.integer(2);
  if (shape.empty() || index < -shape[dim] || index >= shape[dim]) {
    refuse(call.type(), fmt::format("index {} is outside dimension {} of shape {}", index, dim,
                                    format_shape(shape)));
  }
  return {without_dim(call, dim)};
}

Outputs split_by(const OpCall& call, const std::vector<std::int64_t>& sizes, std::size_t dim) {
  Outputs outputs;
  for (std::int64_t size : sizes) outputs.push_back(narrowed(call, dim, size));
  return outputs;
}

Outputs split(const OpCall& call) {
  const std::int64_t part = call.integer(1);
  const std::size_t dim = dim_arg(call, call.integer_or(2, 0));
  const std::int64_t size = call.tensor(0).shape.at(dim);
  if (part < 1) refuse(call.type(), fmt::format("parts of {} elements are not possible", part));
  std::vector<std::int64_t> sizes;
  for (std::int64_t begin = 0; begin < size; begin += part) {
    sizes.push_back(std::min(part, size - begin));
  }
  if (sizes.empty()) sizes = {0};
  return split_by(call, sizes, dim);
}

Outputs split_with_sizes(const OpCall& call) {
  const std::vector<std::int64_t> sizes = call.integers(1);
  const std::size_t dim = dim_arg(call, call.integer_or(2, 0));
  const Shape& shape = call.tensor(0).shape;
  if (std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}) != shape.at(dim)) {
    refuse(call.type(), fmt::format("sizes {} do not add up to dimension {} of shape {}",
                                    format_shape(sizes), dim, format_shape(shape)));
  }
  return split_by(call, sizes, dim);
}

Outputs unbind(const OpCall& call) {
  const std::size_t dim = dim_arg(call, call.integer_or(1, 0));
  const std::int64_t size = call.tensor(0).shape.at(dim);
  return Outputs(static_cast<std::size_t>(size), without_dim(call, dim));
}

OpDef reading(std::string_view type, Outputs (*infer)(const OpCall&)) {
  return {.type = type, .infer = infer, .cheap = true, .flops = no_flops};
}

}  // namespace

std::span<const OpDef> view_ops() {
  static const OpDef defs[] = {
      reading("aten::view", view),
      reading("aten::detach", detach),
      reading("aten::alias", detach),
      reading("aten::permute", permute),
      reading("aten::transpose.int", transpose),
      reading("aten::t", t),
      reading("aten::unsqueeze", unsqueeze),
      reading("aten::squeeze.dim", squeeze),
      reading("aten::expand", expand),
      reading("aten::slice.Tensor", slice),
      reading("aten::select.int", select),
      reading("aten::split.Tensor", split),
      reading("aten::split_with_sizes", split_with_sizes),
      reading("aten::unbind.int", unbind),
  };
  return defs;
}

}  // namespace lowtide::ops
