#pragma once

#include <ATen/core/Tensor.h>

namespace lowtide::stash {

/// Floating values in a type with fewer bits, rounded to the nearest, as dense as they are. A
/// number that is too large for the type becomes its largest one of that sign: an infinite one
/// would spread through the gradients. What is infinite, or no number, stays so.
at::Tensor to_finite(const at::Tensor& values, at::ScalarType dtype);

}  // namespace lowtide::stash
