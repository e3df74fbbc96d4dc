#pragma once

#include <optional>
#include <span>

#include "ops/op_def.h"

/// Where LibTorch's kernels put the elements of a fresh result. Strides are in elements.
namespace lowtide::ops {

/// Each element at its own place and no gaps, in whatever order of dimensions.
bool is_dense(const TensorType& type);

/// Whether pooling, normalization and convolution kernels take this tensor for N x H x W x C.
bool suggests_channels_last(const TensorType& type);

/// Strides of N x C x H x W data that lies in memory as N x H x W x C.
Shape channels_last_strides(const Shape& shape);

/// Strides of a fresh tensor of `shape` in the memory format that `like` suggests.
Shape suggested_strides(const Shape& shape, const TensorType& like);

/// Strides that an element-by-element kernel gives its result: the order of dimensions of the
/// operands is kept, the first operand that can tell decides. Operands broadcast to `shape`.
Shape elementwise_strides(const Shape& shape, std::span<const TensorType> operands);

/// Strides of empty_like: those of a dense tensor, else dense ones in the same order.
Shape preserved_strides(const TensorType& type);

/// Strides under which the same memory reads as `shape`; nothing when only a copy can.
std::optional<Shape> view_strides(const TensorType& type, const Shape& shape);

}  // namespace lowtide::ops
