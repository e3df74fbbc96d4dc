#pragma once

#include <optional>
#include <span>

#include "ops/op_def.h"

/// The strides, in elements, that LibTorch's kernels give a fresh result.
namespace lowtide::ops {

/// Whether elements do not overlap and have no gaps, in any order of dimensions.
bool is_dense(const TensorType& type);

/// Whether pooling, normalization and convolution kernels treat this tensor as N x H x W x C.
bool suggests_channels_last(const TensorType& type);

/// Strides of N x C x H x W data that lies in memory as N x H x W x C.
Shape channels_last_strides(const Shape& shape);

/// Strides of a fresh tensor of `shape` in the memory format that `like` suggests.
Shape suggested_strides(const Shape& shape, const TensorType& like);

/// Strides that an element-by-element kernel gives its result: it keeps the operands' order of
/// dimensions, taken from the first operand that determines it. Operands broadcast to `shape`.
Shape elementwise_strides(const Shape& shape, std::span<const TensorType> operands);

/// Strides of empty_like(): the same for a dense tensor, else dense strides in the same order.
Shape preserved_strides(const TensorType& type);

/// Strides that show the same memory as `shape`; nothing when this needs a copy.
std::optional<Shape> view_strides(const TensorType& type, const Shape& shape);

}  // namespace lowtide::ops
