#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include "graph/initializer.h"

namespace lowtide::runtime {

/// Fills the tensor as the initializer says, drawing from `generator` alone.
void fill(const at::Tensor& tensor, const Initializer& initializer, at::Generator generator);

}  // namespace lowtide::runtime
