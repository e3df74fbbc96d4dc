#pragma once

#include <ATen/core/Tensor.h>

/// Values of a step in fewer bits, losslessly: masks as one bit for each element, in the order of
/// the addresses (Gist, Jain et al. 2018). On the CPU by loops of our own, on other devices by
/// ATen's ops, with the same bits.
namespace lowtide::stash {

/// Bits of a dense tensor of booleans: uint8 [ceil(n / 8)], the first element in the lowest bit.
/// Throws c10::Error for another dtype, and for a tensor whose elements do not fill one stretch of
/// memory.
at::Tensor to_bits(const at::Tensor& mask);

/// The booleans of such bits, laid out by `size` and `stride`.
at::Tensor from_bits(const at::Tensor& bits, at::IntArrayRef size, at::IntArrayRef stride);

/// Bits of !(x <= low), which holds for NaN: of the elements whose gradient
/// `aten::threshold_backward` passes on. `values` is dense and floating.
at::Tensor passing_bits(const at::Tensor& values, const at::Scalar& low);

/// The gradient where the bit is set, else zero. The bits are those of a tensor that is laid out as
/// `gradient` is, which is dense; so is the result, and it may lie over the gradient.
at::Tensor pass_by_bits(const at::Tensor& gradient, const at::Tensor& bits);

}  // namespace lowtide::stash
