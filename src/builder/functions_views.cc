#include <algorithm>

#include "base/error.h"
#include "builder/apply.h"
#include "builder/functions.h"
#include "ops/shapes.h"
#include "ops/strides.h"

namespace lowtide {
namespace {

constexpr int kContiguousFormat = 0;

}  // namespace

Value reshape(Value x, Shape shape) {
  shape = ops::infer_sizes("reshape", shape, x.type().elements());
  if (shape == x.shape()) return x;
  const bool viewable = ops::view_strides(x.type(), shape).has_value();
  return apply("aten::view", {viewable ? x : contiguous(x), std::move(shape)});
}

Value flatten(Value x, std::int64_t start, std::int64_t end) {
  const Shape& shape = x.shape();
  const auto first = static_cast<std::ptrdiff_t>(ops::wrap_dim("flatten", start, shape.size()));
  const auto last = static_cast<std::ptrdiff_t>(ops::wrap_dim("flatten", end, shape.size()));
  if (first > last) throw InputError("flatten: the first dimension comes after the last.");
  if (shape.empty()) return reshape(x, {1});
  Shape flat(shape.begin(), shape.begin() + first);
  flat.push_back(ops::count_elements(Shape(shape.begin() + first, shape.begin() + last + 1)));
  flat.insert(flat.end(), shape.begin() + last + 1, shape.end());
  return reshape(x, std::move(flat));
}

Value transpose(Value x, std::int64_t dim0, std::int64_t dim1) {
  return apply("aten::transpose.int", {x, dim0, dim1});
}

Value permute(Value x, std::vector<std::int64_t> dims) {
  return apply("aten::permute", {x, std::move(dims)});
}

Value unsqueeze(Value x, std::int64_t dim) { return apply("aten::unsqueeze", {x, dim}); }
Value squeeze(Value x, std::int64_t dim) { return apply("aten::squeeze.dim", {x, dim}); }

Value expand(Value x, Shape shape) {
  return x.shape() == shape ? x : apply("aten::expand", {x, std::move(shape)});
}

Value slice(Value x, std::int64_t dim, std::int64_t start, std::int64_t end, std::int64_t step) {
  return apply("aten::slice.Tensor", {x, dim, start, end, step});
}

Value select(Value x, std::int64_t dim, std::int64_t index) {
  return apply("aten::select.int", {x, dim, index});
}

std::vector<Value> split(Value x, std::int64_t size, std::int64_t dim) {
  return x.builder().call("aten::split.Tensor", {x, size, dim});
}

std::vector<Value> chunk(Value x, std::int64_t chunks, std::int64_t dim) {
  if (chunks < 1) throw InputError("chunk: the number of chunks must be positive.");
  const std::int64_t size = x.size(dim);
  return split(x, std::max<std::int64_t>((size + chunks - 1) / chunks, 1), dim);
}

std::vector<Value> unbind(Value x, std::int64_t dim) {
  return x.builder().call("aten::unbind.int", {x, dim});
}

Value contiguous(Value x) {
  return x.type().contiguous() ? x : apply("aten::clone", {x, kContiguousFormat});
}

Value clone(Value x) { return apply("aten::clone", {x}); }

}  // namespace lowtide
