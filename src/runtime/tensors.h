#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "graph/graph.h"

namespace lowtide::runtime {

c10::ScalarType scalar_type(DType dtype);

/// Whether a tensor of this shape has the dtype, too, and lies in memory with these strides.
bool lies_as(const Tensor& type, const at::Tensor& given);

/// Whether two tensors have the same shape and lie in memory with the same strides, where a
/// dimension of one element has none.
bool lie_alike(const at::Tensor& one, const at::Tensor& other);

/// A tensor of this dtype, shape and strides over memory at `data`, which it keeps alive through
/// `owner` (null when someone else does). Asks no allocator.
at::Tensor tensor_over(std::byte* data, const Tensor& type, c10::Device device,
                       std::shared_ptr<void> owner = nullptr);

/// The same for the dtype, shape, strides and marks of another tensor.
at::Tensor tensor_over(std::byte* data, const at::Tensor& type,
                       std::shared_ptr<void> owner = nullptr);

}  // namespace lowtide::runtime
