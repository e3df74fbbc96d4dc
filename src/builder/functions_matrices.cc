#include <fmt/format.h>

#include "base/error.h"
#include "builder/apply.h"
#include "builder/functions.h"
#include "ops/shapes.h"

namespace lowtide {
namespace {

/// All dimensions but the last two.
Shape batch_of(Value x) { return Shape(x.shape().begin(), x.shape().end() - 2); }

Shape with_last(Shape shape, std::int64_t size) {
  shape.back() = size;
  return shape;
}

/// x (.., k) as a matrix of its rows.
Value as_rows(Value x) { return reshape(x, {-1, x.size(-1)}); }

/// x broadcast to the leading dimensions `batch`, as a stack of matrices.
Value as_stack(Value x, Shape batch) {
  const std::int64_t count = ops::count_elements(batch);
  batch.insert(batch.end(), {x.size(-2), x.size(-1)});
  return reshape(expand(x, std::move(batch)), {count, x.size(-2), x.size(-1)});
}

Value batched_matmul(Value a, Value b) {
  const Shape batch = ops::broadcast_shapes("matmul", batch_of(a), batch_of(b));
  Shape shape = batch;
  shape.insert(shape.end(), {a.size(-2), b.size(-1)});
  return reshape(bmm(as_stack(a, batch), as_stack(b, batch)), std::move(shape));
}

}  // namespace

Value mm(Value a, Value b) { return apply("aten::mm", {a, b}); }
Value bmm(Value a, Value b) { return apply("aten::bmm", {a, b}); }

Value matmul(Value a, Value b) {
  if (a.dim() == 0 || b.dim() == 0) throw InputError("matmul: needs at least one dimension.");
  autocast("matmul", {&a, &b});
  if (a.dim() == 1) return squeeze(matmul(unsqueeze(a, 0), b), b.dim() == 1 ? 0 : -2);
  if (b.dim() == 1) return squeeze(matmul(a, unsqueeze(b, 1)), -1);
  if (a.dim() == 2 && b.dim() == 2) return mm(a, b);
  // One product of all rows: a stack would repeat b for each of its matrices.
  if (b.dim() == 2) return reshape(mm(as_rows(a), b), with_last(a.shape(), b.size(1)));
  return batched_matmul(a, b);
}

Value linear(Value x, Value weight, Value bias) {
  if (weight.dim() != 2 || x.dim() < 1 || x.size(-1) != weight.size(1)) {
    throw InputError(fmt::format("linear: input {} and weight {} do not fit",
                                 ops::format_shape(x.shape()), ops::format_shape(weight.shape())));
  }
  autocast("linear", {&x, &weight, &bias});
  const Value transposed = apply("aten::t", {weight});
  if (!bias) return matmul(x, transposed);
  const bool one_product = x.dim() == 2 || (x.dim() == 3 && x.type().contiguous());
  if (!one_product) return matmul(x, transposed) + bias;
  const Value rows = apply("aten::addmm", {bias, as_rows(x), transposed});
  return reshape(rows, with_last(x.shape(), weight.size(0)));
}

}  // namespace lowtide
