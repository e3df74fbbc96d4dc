#pragma once

#include <ATen/core/Tensor.h>

#include "graph/graph.h"

namespace lowtide {

c10::ScalarType scalar_type(DType dtype);

/// A tensor of this dtype, shape and strides over memory that someone else owns.
at::Tensor tensor_over(void* data, const Tensor& type);

}  // namespace lowtide
