#include "ops/strides.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "ops/shapes.h"

namespace lowtide::ops {
namespace {

constexpr std::array<std::size_t, 4> kChannelsLastOrder = {1, 3, 2, 0};  // innermost first

std::vector<std::size_t> dims_from_last(std::size_t rank) {
  std::vector<std::size_t> dims(rank);
  std::iota(dims.rbegin(), dims.rend(), std::size_t{0});
  return dims;
}

/// Strides of data laid out without gaps, `order` naming the dimensions from the innermost on.
Shape packed_strides(const Shape& shape, std::span<const std::size_t> order) {
  Shape strides(shape.size());
  std::int64_t step = 1;
  for (std::size_t dim : order) {
    strides[dim] = step;
    step = checked_times(step, shape[dim], shape);
  }
  return strides;
}

/// Whether `type` is laid out without gaps in this order; dimensions of size 1 do not matter.
bool is_packed(const TensorType& type, std::span<const std::size_t> order) {
  std::int64_t step = 1;
  for (std::size_t dim : order) {
    if (type.shape[dim] == 1) continue;
    if (type.strides[dim] != step) return false;
    step *= type.shape[dim];
  }
  return true;
}

bool is_channels_last(const TensorType& type) {
  return type.shape.size() == 4 && is_packed(type, kChannelsLastOrder);
}

/// Strides of an operand broadcast to `shape`: 0 where it repeats.
Shape broadcast_strides(const TensorType& type, const Shape& shape) {
  Shape strides(shape.size(), 0);
  const std::size_t lead = shape.size() - type.shape.size();
  for (std::size_t i = 0; i < type.shape.size(); ++i) {
    const bool repeats = type.shape[i] == 1 && shape[lead + i] != 1;
    strides[lead + i] = repeats ? 0 : type.strides[i];
  }
  return strides;
}

/// Which of two dimensions is the inner one: < 0 for `a`, > 0 for `b`, 0 if undetermined.
int compare_dims(const Shape& shape, std::span<const Shape> operands, std::size_t a,
                 std::size_t b) {
  for (const Shape& strides : operands) {
    if (strides[a] == 0 || strides[b] == 0) continue;
    if (strides[a] != strides[b]) return strides[a] < strides[b] ? -1 : 1;
    if (shape[a] > shape[b]) return 1;
  }
  return 0;
}

/// Dimensions, innermost first. The same insertion sort as the kernels': it steps over pairs that
/// do not compare, which selects one of several consistent orders.
std::vector<std::size_t> iteration_order(const Shape& shape, std::span<const Shape> operands) {
  std::vector<std::size_t> order = dims_from_last(shape.size());
  for (std::size_t i = 1; i < order.size(); ++i) {
    std::size_t moving = i;
    for (std::size_t j = i; j-- > 0;) {
      const int comparison = compare_dims(shape, operands, order[j], order[moving]);
      if (comparison < 0) break;
      if (comparison == 0) continue;
      std::swap(order[j], order[moving]);
      moving = j;
    }
  }
  return order;
}

bool all_of_shape(std::span<const TensorType> operands, const Shape& shape) {
  return std::ranges::all_of(operands, [&](const TensorType& t) { return t.shape == shape; });
}

/// The common layout of all operands, if there is one.
std::optional<Shape> common_strides(const Shape& shape, std::span<const TensorType> operands) {
  if (operands.empty() || !all_of_shape(operands, shape)) return std::nullopt;
  if (std::ranges::all_of(operands, &TensorType::contiguous)) return contiguous_strides(shape);
  if (std::ranges::all_of(operands, is_channels_last)) return channels_last_strides(shape);
  const bool same = std::ranges::all_of(operands, [&](const TensorType& t) {
    return is_dense(t) && t.strides == operands.front().strides;
  });
  return same ? std::optional(operands.front().strides) : std::nullopt;
}

/// A run of dimensions whose elements are evenly spaced in memory.
struct Run {
  std::int64_t elements;
  std::int64_t stride;
};

/// The runs of a tensor, innermost first.
std::vector<Run> even_runs(const TensorType& type) {
  std::vector<Run> runs = {{type.shape.back(), type.strides.back()}};
  for (std::size_t dim = type.shape.size() - 1; dim-- > 0;) {
    Run& run = runs.back();
    if (type.shape[dim] == 1 || type.strides[dim] == run.elements * run.stride) {
      run.elements *= type.shape[dim];
    } else {
      runs.push_back({type.shape[dim], type.strides[dim]});
    }
  }
  return runs;
}

}  // namespace

bool is_dense(const TensorType& type) {
  std::vector<std::size_t> order = dims_from_last(type.shape.size());
  std::erase_if(order, [&](std::size_t dim) { return type.shape[dim] < 2; });
  std::ranges::stable_sort(order, {}, [&](std::size_t dim) { return type.strides[dim]; });
  return type.elements() == 0 || is_packed(type, order);
}

bool suggests_channels_last(const TensorType& type) {
  if (type.shape.size() != 4 || type.strides[1] == 0) return false;
  std::int64_t least = 0;
  for (std::size_t dim : kChannelsLastOrder) {
    const std::int64_t size = type.shape[dim];
    const std::int64_t stride = type.strides[dim];
    if (size == 0 || stride < least) return false;
    if (dim == 0 && least == type.strides[1]) return false;  // N x 1 x 1 x 1 has both layouts
    least = size > 1 ? stride * size : stride;
  }
  return true;
}

Shape channels_last_strides(const Shape& shape) {
  return packed_strides(shape, kChannelsLastOrder);
}

Shape suggested_strides(const Shape& shape, const TensorType& like) {
  return suggests_channels_last(like) ? channels_last_strides(shape) : contiguous_strides(shape);
}

Shape elementwise_strides(const Shape& shape, std::span<const TensorType> operands) {
  if (auto common = common_strides(shape, operands)) return *common;
  std::vector<Shape> strides;
  for (const TensorType& t : operands) strides.push_back(broadcast_strides(t, shape));
  const std::vector<std::size_t> order = iteration_order(shape, strides);
  const bool plain = order == dims_from_last(shape.size());
  return plain ? contiguous_strides(shape) : packed_strides(shape, order);
}

Shape preserved_strides(const TensorType& type) {
  if (is_dense(type)) return type.strides;
  return packed_strides(type.shape, iteration_order(type.shape, std::span(&type.strides, 1)));
}

std::optional<Shape> view_strides(const TensorType& type, const Shape& shape) {
  if (type.elements() == 0) {
    return type.shape == shape ? type.strides : contiguous_strides(shape);
  }
  if (type.shape.empty()) return Shape(shape.size(), 1);
  Shape strides(shape.size());
  std::size_t dim = shape.size();
  for (const Run& run : even_runs(type)) {
    std::int64_t taken = 1;
    while (dim > 0 && (taken < run.elements || shape[dim - 1] == 1)) {
      --dim;
      strides[dim] = taken * run.stride;
      taken *= shape[dim];
    }
    if (taken != run.elements) return std::nullopt;
  }
  return dim == 0 ? std::optional(strides) : std::nullopt;
}

}  // namespace lowtide::ops
