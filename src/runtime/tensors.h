#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "graph/graph.h"

namespace lowtide::runtime {

c10::ScalarType scalar_type(DType dtype);

/// Whether a tensor of this shape has this dtype and these strides.
bool lies_as(const Tensor& type, const at::Tensor& given);

/// Whether two tensors have the same shape and strides, ignoring strides of dimensions with one
/// element.
bool lie_alike(const at::Tensor& one, const at::Tensor& other);

/// Whether the tensor is a number in the host's memory. Attention on a GPU keeps the seed and the
/// offset of its dropout there, and its backward pass reads them there.
bool is_number_on_host(const at::Tensor& tensor);

/// A tensor of this dtype, shape and strides over memory at `data`, which it keeps alive through
/// `owner` (null: the caller keeps it). Does not allocate.
at::Tensor tensor_over(std::byte* data, const Tensor& type, c10::Device device,
                       std::shared_ptr<void> owner = nullptr);

/// The same for the dtype, shape, strides and marks of another tensor.
at::Tensor tensor_over(std::byte* data, const at::Tensor& type,
                       std::shared_ptr<void> owner = nullptr);

}  // namespace lowtide::runtime
