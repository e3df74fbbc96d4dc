#include <fmt/format.h>

#include "ops/op_def.h"
#include "ops/shapes.h"
#include "ops/strides.h"

/// Products of matrices.
namespace lowtide::ops {
namespace {

using Outputs = std::vector<OutputType>;

/// Shape of the product of two stacks of matrices.
Shape product_shape(const OpCall& call, const TensorType& a, const TensorType& b) {
  const std::size_t rank = a.shape.size();
  Shape shape = a.shape;
  shape[rank - 1] = b.shape[rank - 1];
  const bool fits =
      a.shape[rank - 1] == b.shape[rank - 2] && (rank == 2 || a.shape[0] == b.shape[0]);
  if (!fits) {
    refuse(call.type(), fmt::format("matrices of shapes {} and {} cannot be multiplied",
                                    format_shape(a.shape), format_shape(b.shape)));
  }
  return shape;
}

OutputType product(const OpCall& call, std::size_t first, std::size_t rank) {
  const TensorType& a = tensor_of_rank(call, first, rank);
  const TensorType& b = tensor_of_rank(call, first + 1, rank);
  if (a.dtype != b.dtype) {
    refuse(call.type(), fmt::format("cannot multiply {} by {}", name(a.dtype), name(b.dtype)));
  }
  return fresh(a.dtype, product_shape(call, a, b));
}

/// product(first, first + 1) plus argument 0.
OutputType sum_and_product(const OpCall& call, std::size_t rank) {
  OutputType result = product(call, 1, rank);
  const Shape& added = call.tensor(0).shape;
  if (broadcast_shapes(call.type(), added, result.type.shape) != result.type.shape) {
    refuse(call.type(), fmt::format("shape {} does not broadcast to the product's {}",
                                    format_shape(added), format_shape(result.type.shape)));
  }
  return result;
}

Outputs mm(const OpCall& call) { return {product(call, 0, 2)}; }
Outputs bmm(const OpCall& call) { return {product(call, 0, 3)}; }
Outputs addmm(const OpCall& call) { return {sum_and_product(call, 2)}; }
Outputs baddbmm(const OpCall& call) { return {sum_and_product(call, 3)}; }

/// A multiplication and an addition for each term of each inner product.
template <std::size_t kFirst>
double product_flops(const OpCall& call, std::span<const OutputType> outputs) {
  const auto inner = static_cast<double>(call.tensor(kFirst).shape.back());
  return 2 * inner * static_cast<double>(outputs[0].type.elements());
}

/// (B, H, T, D) queries against (B, H, S, D) keys and values; the logarithms of the softmax sums
/// come out as (B, H, T) over memory of (B, T, H).
Outputs attention(const OpCall& call) {
  const TensorType& query = tensor_of_rank(call, 0, 4);
  const Shape& q = query.shape;
  const Shape& k = tensor_of_rank(call, 1, 4).shape;
  const Shape& v = tensor_of_rank(call, 2, 4).shape;
  if (k != v || Shape{q[0], q[1], q[3]} != Shape{k[0], k[1], k[3]}) {
    refuse(call.type(), fmt::format("queries {}, keys {} and values {} do not fit", format_shape(q),
                                    format_shape(k), format_shape(v)));
  }
  const DType sums = query.dtype == DType::f64 ? DType::f64 : DType::f32;
  return {fresh(query.dtype, q, preserved_strides(query)),
          fresh(sums, {q[0], q[1], q[2]}, {q[1] * q[2], 1, q[1]})};
}

/// Gradients of queries, keys and values, in memory of (B, T, H, D).
Outputs attention_backward(const OpCall& call) {
  Outputs outputs;
  for (std::size_t i = 1; i <= 3; ++i) {
    const TensorType& type = tensor_of_rank(call, i, 4);
    const std::int64_t heads = type.shape[1], length = type.shape[2], width = type.shape[3];
    outputs.push_back(
        fresh(type.dtype, type.shape, {length * heads * width, width, heads * width, 1}));
  }
  return outputs;
}

/// kProducts products of (T x D) by (D x S) for each batch and head; argument kQuery: the queries.
template <std::size_t kQuery, int kProducts>
double attention_flops(const OpCall& call, std::span<const OutputType>) {
  const auto keys = static_cast<double>(call.tensor(kQuery + 1).shape[2]);
  return 2.0 * kProducts * keys * static_cast<double>(call.tensor(kQuery).elements());
}

}  // namespace

std::span<const OpDef> matrix_ops() {
  static const OpDef defs[] = {
      {.type = "aten::mm", .infer = mm, .flops = product_flops<0>},
      {.type = "aten::bmm", .infer = bmm, .flops = product_flops<0>},
      {.type = "aten::addmm", .infer = addmm, .flops = product_flops<1>},
      {.type = "aten::baddbmm", .infer = baddbmm, .flops = product_flops<1>},
      {.type = "aten::_scaled_dot_product_flash_attention_for_cpu",
       .infer = attention,
       .flops = attention_flops<0, 2>},
      {.type = "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
       .infer = attention_backward,
       .flops = attention_flops<1, 5>},
  };
  return defs;
}

}  // namespace lowtide::ops
