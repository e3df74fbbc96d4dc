#include "ops/shapes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace lowtide::ops {
namespace {

std::int64_t size_from_end(const Shape& shape, std::size_t i) {
  return i < shape.size() ? shape[shape.size() - 1 - i] : 1;
}

}  // namespace

std::string format_shape(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

void refuse(std::string_view op, const std::string& what) {
  throw InputError(fmt::format("{}: {}", op, what));
}

std::size_t wrap_dim(std::string_view op, std::int64_t dim, std::size_t rank) {
  const auto limit = static_cast<std::int64_t>(std::max<std::size_t>(rank, 1));
  if (dim < -limit || dim >= limit) {
    refuse(op, fmt::format("dimension {} does not exist in a tensor of {} dimensions", dim, rank));
  }
  return static_cast<std::size_t>(dim < 0 ? dim + limit : dim);
}

Shape broadcast_shapes(std::string_view op, const Shape& a, const Shape& b) {
  Shape result(std::max(a.size(), b.size()));
  for (std::size_t i = 0; i < result.size(); ++i) {
    const std::int64_t x = size_from_end(a, i);
    const std::int64_t y = size_from_end(b, i);
    if (x != y && x != 1 && y != 1) {
      refuse(op, fmt::format("shapes {} and {} do not broadcast: {} and {} differ in dimension -{}",
                             format_shape(a), format_shape(b), x, y, i + 1));
    }
    result[result.size() - 1 - i] = x == 1 ? y : x;
  }
  return result;
}

std::int64_t checked_times(std::int64_t count, std::int64_t size, const Shape& shape) {
  constexpr std::int64_t kLargestElementBytes = 8;
  constexpr std::int64_t kMost = std::numeric_limits<Bytes>::max() / kLargestElementBytes;
  std::int64_t product = 0;
  if (!__builtin_mul_overflow(count, size, &product) && product <= kMost) return product;
  throw InputError(
      fmt::format("a tensor of shape {} has more bytes than can be counted", format_shape(shape)));
}

std::int64_t count_elements(const Shape& shape) {
  std::int64_t product = 1;
  for (std::int64_t size : shape) product = checked_times(product, size, shape);
  return product;
}

Shape infer_sizes(std::string_view op, const Shape& sizes, std::int64_t elements) {
  Shape result = sizes;
  const auto open = std::ranges::find(result, -1);
  if (open != result.end()) {
    *open = 1;
    const std::int64_t known = count_elements(result);
    *open = known == 0 ? 0 : elements / known;
  }
  const bool negative = std::ranges::any_of(result, [](std::int64_t size) { return size < 0; });
  if (negative || count_elements(result) != elements) {
    refuse(op,
           fmt::format("{} elements cannot be seen as shape {}", elements, format_shape(sizes)));
  }
  return result;
}

Shape reduced_shape(std::string_view op, const Shape& shape, const std::vector<std::int64_t>& dims,
                    bool keep_dims) {
  std::vector<bool> reduced(shape.size(), dims.empty());
  for (std::int64_t dim : dims) {
    const std::size_t i = wrap_dim(op, dim, shape.size());
    if (i >= reduced.size()) continue;  // a scalar takes 0 and -1
    if (reduced[i]) refuse(op, fmt::format("dimension {} is named twice", i));
    reduced[i] = true;
  }
  Shape result;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (!reduced[i]) {
      result.push_back(shape[i]);
    } else if (keep_dims) {
      result.push_back(1);
    }
  }
  return result;
}

OutputType fresh(DType dtype, Shape shape) {
  return {contiguous_type(dtype, std::move(shape)), kNone};
}

OutputType fresh(DType dtype, Shape shape, Shape strides) {
  return {TensorType{dtype, std::move(shape), std::move(strides)}, kNone};
}

const TensorType& tensor_of_rank(const OpCall& call, std::size_t i, std::size_t rank) {
  const TensorType& type = call.tensor(i);
  if (type.shape.size() != rank) {
    refuse(call.type(), fmt::format("argument {} needs {} dimensions, but its shape is {}", i, rank,
                                    format_shape(type.shape)));
  }
  return type;
}

std::int64_t per_dim(const std::vector<std::int64_t>& sizes, std::size_t i) {
  return sizes.size() == 1 ? sizes.front() : sizes.at(i);
}

}  // namespace lowtide::ops
