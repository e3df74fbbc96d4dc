#pragma once

#include <string>
#include <string_view>

#include "ops/op_def.h"

/// Helpers of the ops' shape rules.
namespace lowtide::ops {

/// "[2, 3]".
std::string format_shape(const Shape& shape);

/// Throws InputError "aten::mm: <what>".
[[noreturn]] void refuse(std::string_view op, const std::string& what);

/// `dim` as an index into a shape of `rank` dimensions, negative ones counted from the end.
/// Throws InputError when there is no such dimension.
std::size_t wrap_dim(std::string_view op, std::int64_t dim, std::size_t rank);

/// The shape to which both broadcast. Throws InputError that shows both shapes.
Shape broadcast_shapes(std::string_view op, const Shape& a, const Shape& b);

/// count * size. Throws InputError that shows the shape when the bytes of that many elements do not
/// fit 63 bits.
std::int64_t checked_times(std::int64_t count, std::int64_t size, const Shape& shape);
std::int64_t count_elements(const Shape& shape);

/// `sizes` of a view of `elements` elements, with a -1 replaced by its size. Throws InputError when
/// the numbers do not agree.
Shape infer_sizes(std::string_view op, const Shape& sizes, std::int64_t elements);

/// The shape left by reducing over `dims` (all when empty).
Shape reduced_shape(std::string_view op, const Shape& shape, const std::vector<std::int64_t>& dims,
                    bool keep_dims);

/// A fresh contiguous output.
OutputType fresh(DType dtype, Shape shape);
/// A fresh output with these strides.
OutputType fresh(DType dtype, Shape shape, Shape strides);

/// Throws InputError unless tensor argument `i` of the call has this rank.
const TensorType& tensor_of_rank(const OpCall& call, std::size_t i, std::size_t rank);

/// Entry `i` of a list of sizes; a single number stands for all dimensions.
std::int64_t per_dim(const std::vector<std::int64_t>& sizes, std::size_t i);

}  // namespace lowtide::ops
